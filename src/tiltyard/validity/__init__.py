"""Rules about trust: how far judges agree with people, and what sways them."""

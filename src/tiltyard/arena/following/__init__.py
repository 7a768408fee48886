"""The read model: follows the log and publishes immutable snapshots, so that pages never wait for the writer."""

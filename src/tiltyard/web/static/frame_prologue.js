(() => {
  // Runs in a page that is an answer, before its own code: answers the watchdog, and closes the ways out that its policy leaves open.
  const page = parent, post = page.postMessage, stop = Event.prototype.stopImmediatePropagation, { apply } = Reflect;
  addEventListener("message", (event) => {
    if (event.data !== "tiltyard:ping") return;
    apply(stop, event, []);
    apply(post, page, ["tiltyard:alive", "*"]);
  });
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "WebSocket", "EventSource"]) delete window[name];
  // A frame made here would have a fresh RTCPeerConnection, which no policy forbids: none lives until the end of the script that made it.
  const FRAMES = "iframe, frame, object, embed, fencedframe", { remove, attachShadow } = Element.prototype;
  const { observe } = MutationObserver.prototype, all = { childList: true, subtree: true };
  const inDocument = Document.prototype.querySelector, inFragment = DocumentFragment.prototype.querySelector;
  let shadows = null; // a chain: the page's code can change how lists work, but not this
  const sweep = (look, root) => {
    for (let frame = apply(look, root, [FRAMES]); frame; frame = apply(look, root, [FRAMES])) apply(remove, frame, []);
  };
  const watcher = new MutationObserver(() => {
    sweep(inDocument, document);
    for (let each = shadows; each; each = each.next) sweep(inFragment, each.root);
  });
  apply(observe, watcher, [document, all]);
  Element.prototype.attachShadow = function (options) {
    shadows = { root: apply(attachShadow, this, [options]), next: shadows };
    apply(observe, watcher, [shadows.root, all]);
    return shadows.root;
  };
  for (const owner of [Element.prototype, ShadowRoot.prototype]) delete owner.setHTMLUnsafe;
  delete Document.parseHTMLUnsafe;
  // What a script writes is added after it has ended, as markup that makes no shadow roots.
  const add = Element.prototype.insertAdjacentHTML, pending = new Map();
  Document.prototype.write = function (...texts) {
    const here = document.currentScript ?? document.body;
    if (!pending.size) queueMicrotask(flush);
    pending.set(here, (pending.get(here) ?? "") + texts.join(""));
  };
  Document.prototype.writeln = function (...texts) { this.write(...texts, "\n"); };
  function flush() {
    for (const [here, text] of pending) apply(add, here, [here === document.body ? "beforeend" : "afterend", text]);
    pending.clear();
  }
})();

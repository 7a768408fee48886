(() => {
  // Runs in a page that is an answer, before its own code: answers the watchdog, and closes the ways out that its policy leaves open.
  // The page's code can change how strings, lists and events work, so what is needed later is kept here.
  const page = parent, post = page.postMessage, stop = Event.prototype.stopImmediatePropagation, { apply } = Reflect;
  const { slice } = String.prototype, { exec } = RegExp.prototype;
  const tell = (words) => apply(post, page, [words, "*"]);
  const getter = ({ prototype }, name) => Object.getOwnPropertyDescriptor(prototype, name).get;
  const source = getter(MessageEvent, "source"), data = getter(MessageEvent, "data"), ports = getter(MessageEvent, "ports");
  const key = getter(KeyboardEvent, "key"), through = MessagePort.prototype.postMessage;
  let door = null; // the page's code never has it, so what comes through it was not made up
  addEventListener("message", (event) => {
    if (apply(source, event, []) !== page || apply(data, event, []) !== "tiltyard:ping") return;
    apply(stop, event, []);
    door ??= apply(ports, event, [])[0] ?? null;
    tell("tiltyard:alive");
  }, true);
  // The site has its keys back at Escape, whatever the page does with it, and learns when the visitor may be scrolling.
  for (const kind of ["wheel", "touchmove", "touchend", "keydown", "pointerdown", "pointerup"])
    addEventListener(kind, (event) => {
      if (!event.isTrusted || !door) return;
      apply(through, door, [kind === "keydown" && apply(key, event, []) === "Escape" ? "escape" : kind]);
    }, { capture: true, passive: true });
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "WebSocket", "EventSource"]) delete window[name];
  // Where the box is on the screen would tell which of the two answers this is.
  for (const name of ["screenX", "screenY", "screenLeft", "screenTop", "mozInnerScreenX", "mozInnerScreenY"])
    if (name in window) Object.defineProperty(window, name, { value: 0 });
  for (const { prototype } of [MouseEvent, window.Touch ?? MouseEvent]) {
    Object.defineProperty(prototype, "screenX", { get() { return this.clientX; } });
    Object.defineProperty(prototype, "screenY", { get() { return this.clientY; } });
  }
  // A browser draws its words about a field outside the box of the page, over the other answer: fields are checked, and nothing is drawn.
  const { preventDefault } = Event.prototype, { addEventListener: listen } = EventTarget.prototype;
  const undrawn = (root) => apply(listen, root, ["invalid", (event) => apply(preventDefault, event, []), true]);
  undrawn(window);
  for (const { prototype } of [HTMLInputElement, HTMLTextAreaElement, HTMLSelectElement, HTMLButtonElement, HTMLOutputElement,
    HTMLFieldSetElement, HTMLObjectElement, HTMLFormElement, ElementInternals]) prototype.reportValidity = prototype.checkValidity;
  for (const { prototype } of [HTMLInputElement, HTMLSelectElement]) delete prototype.showPicker;
  delete HTMLVideoElement.prototype.requestPictureInPicture;
  delete window.EyeDropper;
  // The browser's own would take away whatever listens here.
  Document.prototype.open = function () {
    if (this.readyState !== "loading") this.body?.replaceChildren();
    return this;
  };
  // What comes into sight does so in this page alone: browsers would scroll the site, too, and hold the visitor there.
  Element.prototype.scrollIntoView = function () {
    for (let box = this.parentNode; box; box = box.host ?? box.parentNode)
      for (const [edge, place] of [["top", "scrollTop"], ["left", "scrollLeft"]])
        if (place in box) box[place] += this.getBoundingClientRect()[edge] - (box === document.scrollingElement ? 0 : box.getBoundingClientRect()[edge]);
  };
  if (Element.prototype.scrollIntoViewIfNeeded) Element.prototype.scrollIntoViewIfNeeded = Element.prototype.scrollIntoView;
  delete window.find;
  // The focus is the visitor's to give: a page that took it would take the keys from the other one, or from the ballot.
  for (const owner of [window, HTMLElement.prototype, SVGElement.prototype, MathMLElement.prototype]) {
    const { focus } = owner;
    owner.focus = function (options) {
      if (!document.hasFocus()) return;
      apply(focus, this, [{ preventScroll: true }]);
      if (this === window || options?.preventScroll) return;
      const { top, bottom } = this.getBoundingClientRect();
      if (top < 0 || bottom > innerHeight) this.scrollIntoView();
    };
  }
  // The tab's history and the clipboard are the visitor's, too.
  for (const name of ["back", "forward", "go"]) History.prototype[name] = () => {};
  History.prototype.pushState = History.prototype.replaceState;
  delete window.navigation;
  addEventListener("hashchange", (event) => { if (event.isTrusted && door) apply(through, door, ["hashchange"]); }, true);
  delete Navigator.prototype.clipboard;
  const { execCommand } = Document.prototype, COPYING = /^(copy|cut)$/i;
  Document.prototype.execCommand = function (name, ...rest) {
    name = `${name}`;
    return !apply(exec, COPYING, [name]) && apply(execCommand, this, [name, ...rest]);
  };
  for (const kind of ["copy", "cut", "beforecopy", "beforecut"]) addEventListener(kind, (event) => apply(stop, event, []), true);
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
  // A copy of a root, or one that markup makes, would be watched by nobody.
  Element.prototype.attachShadow = function (options) {
    shadows = { root: apply(attachShadow, this, [{ ...options, clonable: false, serializable: false }]), next: shadows };
    apply(observe, watcher, [shadows.root, all]);
    undrawn(shadows.root); // these events do not leave their root
    return shadows.root;
  };
  for (const owner of [Element, DocumentFragment, ShadowRoot, Document, Range, CharacterData])
    for (const place of [owner, owner.prototype])
      for (const name of Object.getOwnPropertyNames(place)) if (name.endsWith("Unsafe")) delete place[name];
  // A link loads nothing in a page like this, but it may connect (`preconnect`): there are none.
  const { createElement } = Document.prototype, localName = getter(Element, "localName");
  for (const name of ["createElement", "createElementNS"]) {
    const make = Document.prototype[name];
    Document.prototype[name] = function (...words) {
      const made = apply(make, this, words);
      return apply(localName, made, []) === "link" ? apply(createElement, document, ["span"]) : made;
    };
  }
  // Browsers with Trusted Types ask this policy about every text that becomes markup, and the page cannot have another.
  const SHUT = /(?:srcdoc|shadowrootmode)(?=\s*=)|<!(?=ENTITY|ATTLIST)|<(?:[^\s<>/:]*:)?link(?=[\s/>])[^>]*>?/i, OF_FRAME = /srcdoc|attribute/i; // the one attribute that is markup is a frame's `srcdoc`
  const harmless = (text) => {
    for (let found = apply(exec, SHUT, [text]); found; found = apply(exec, SHUT, [text]))
      text = apply(slice, text, [0, found.index]) + apply(slice, text, [found.index + found[0].length]);
    return text;
  };
  const same = (text) => text;
  globalThis.trustedTypes?.createPolicy("default", {
    createHTML: (text, kind, sink) => (apply(exec, OF_FRAME, [sink]) ? "" : harmless(text)), createScript: same, createScriptURL: same,
  });
  delete window.XSLTProcessor; // it asks no policy about the markup that it makes
  delete globalThis.trustedTypes; // libraries would ask for policies of their own, and be refused
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

// Redrawing a panel or the tabs replaces their elements: move the focus from the old element to the new one.
window.oalKept ??=
  document.addEventListener("focusin", ({ target }) => {
    window.oalWatch?.disconnect();
    const isTab = target.matches("[role=tab]");
    const panel = isTab ? document.body : target.closest("[data-testid=stHtml]");
    if (!panel) return;
    const name = target.textContent;
    const isNew = isTab ? (element) => element.textContent === name : () => true;
    let top = target.scrollTop;
    target.onscroll = () => (top = target.scrollTop);
    window.oalWatch = new MutationObserver(() => {
      if (document.activeElement !== document.body || (target.isConnected && !isTab)) return;
      const anew = [...panel.querySelectorAll(isTab ? "[role=tab]" : "[tabindex]")].find(isNew);
      anew?.focus({ preventScroll: true });
      if (anew) anew.scrollTop = top;
    });
    window.oalWatch.observe(panel, { childList: true, subtree: true });
  }) ??
  document.addEventListener("pointerdown", ({ target }) => {
    if (!target.closest("[data-testid=stHtml]")) window.oalWatch?.disconnect(); // a click elsewhere leaves the tab
  }) ??
  true;

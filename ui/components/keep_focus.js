// Redrawing a panel replaces its elements: move the focus from the old element to the new one.
window.oalKept ??=
  document.addEventListener("focusin", ({ target }) => {
    window.oalWatch?.disconnect();
    const panel = target.closest("[data-testid=stHtml]");
    if (!panel) return;
    let top = target.scrollTop;
    target.onscroll = () => (top = target.scrollTop);
    window.oalWatch = new MutationObserver(() => {
      const anew = panel.querySelector("[tabindex]");
      if (target.isConnected || document.activeElement !== document.body || !anew) return;
      anew.focus({ preventScroll: true });
      anew.scrollTop = top;
    });
    window.oalWatch.observe(panel, { childList: true, subtree: true });
  }) ?? true;

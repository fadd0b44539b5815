// Streamlit puts a popover at the end of the page, where Tab comes last. If it was opened with the keyboard, move the
// focus into it; Escape leads back to the button.
window.oalPopover ??=
  document.addEventListener(
    "click",
    ({ target, detail }) => {
      const opener = target.closest?.("[data-testid=stPopoverButton]");
      if (detail || !opener || opener.ariaExpanded === "true") return; // a mouse click, another element, or it closes
      const enter = (frames) => {
        const first = document.querySelector("[data-testid=stPopoverBody] :is(a[href], button, input)");
        first?.focus(); // without effect while the popover fades in
        if (frames && (!first || document.activeElement !== first)) requestAnimationFrame(() => enter(frames - 1));
      };
      enter(300);
    },
    { capture: true },
  ) ?? true;

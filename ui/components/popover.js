// What Streamlit opens under a button stands at the end of the page, where Tab comes last. Whoever opened it by a key is
// taken into it; Escape leads back to the button.
window.oalPopover ??=
  document.addEventListener(
    "click",
    ({ target, detail }) => {
      const opener = target.closest?.("[data-testid=stPopoverButton]");
      if (detail || !opener || opener.ariaExpanded === "true") return; // a mouse, something else, or it closes
      const enter = (frames) => {
        const first = document.querySelector("[data-testid=stPopoverBody] :is(a[href], button, input)");
        first?.focus(); // which one that is still fading in does not take
        if (frames && (!first || document.activeElement !== first)) requestAnimationFrame(() => enter(frames - 1));
      };
      enter(300);
    },
    { capture: true },
  ) ?? true;

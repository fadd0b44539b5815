// What a page says between the click on a link and the arrival of the other page, Streamlit 1.67 takes for a run of the
// page that is left: where it comes before that run it takes its place, and after it it empties the other page.

const LEAVING = 30000; // ms in which the other page comes, or never

// A function that tells whether this page is being left, and nothing may be sent that can wait.
function leaving(signal) {
  let until = 0;
  const leave = () => (until = performance.now() + LEAVING);
  const onClick = (event) => {
    const link = event.composedPath().find((node) => node.matches?.("[data-testid=stPageLink-NavLink]"));
    const page = link?.getAttribute("href").split("?")[0];
    if (link && page !== location.pathname.split("/").at(-1)) leave();
  };
  document.addEventListener("click", onClick, { signal, capture: true });
  window.addEventListener("popstate", leave, { signal });
  return () => performance.now() < until;
}

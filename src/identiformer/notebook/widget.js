// The page in an iframe, so that its style and script are kept apart from the notebook's.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "attention maps";
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = "width: 100%; height: 900px; border: 1px solid #ccc; border-radius: 6px;";
  frame.srcdoc = model.get("page");
  const onMessage = (event) => {
    if (event.source !== frame.contentWindow || !event.data?.identiformer) return;
    const { view, height } = event.data.identiformer;
    if (height) frame.style.height = `${Math.min(Math.ceil(height), 2400)}px`;
    if (view) {
      model.set("view", view);
      model.save_changes();
    }
  };
  addEventListener("message", onMessage);
  el.append(frame);
  return () => removeEventListener("message", onMessage);
}

export default { render };

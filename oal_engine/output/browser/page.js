// A self-contained page: its data are in it, and its address may name a question.

const main = document.querySelector("main");
const data = JSON.parse(document.getElementById("data").textContent);
const question = Number(new URLSearchParams(location.search).get("question"));
if (data.start && question >= 1) data.start = { number: Math.floor(question) };

// The content of a tab in the fragment of a link, which a browser does not send to a server.

const MOST = 32_000;

export async function toFragment(content) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(content)), new CompressionStream("deflate-raw"));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const fragment = text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  if (fragment.length > MOST) throw new Error(`it is too long for a link: ${fragment.length} of ${MOST} characters`);
  return fragment;
}

// The content of a link, which anybody can have written.
export async function fromFragment(fragment, tabs) {
  const text = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const content = JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
  const texts = Object.entries(content.texts).filter(([, text]) => typeof text === "string");
  const tab = tabs.find((name) => name === content.tab) ?? tabs[0];
  return { tab, policy: String(content.policy ?? ""), texts: Object.fromEntries(texts) };
}

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** Requests as commands and programs to paste elsewhere. Keys come from the environment, never from this page. */

/** A request: a POST with JSON if it has a body, else a GET. */
export interface Call {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Ask {
  /** The address of the agent's JSON-RPC. */
  readonly url: string;
  readonly text: string;
  /** The server needs a key. */
  readonly withKey: boolean;
}

/** Return a request as a curl command; with `withKey` the shell's $TASKPLANE_KEY authorizes it. */
export function curl({ url, headers = {}, body }: Call, withKey: boolean): string {
  const typed = body === undefined ? headers : { ...headers, "Content-Type": "application/json" };
  const own = Object.entries(typed).filter(([name]) => !/^(authorization|x-api-key)$/i.test(name));
  return [
    `curl -sSN ${quoted(url)}`,
    ...(withKey ? ['-H "Authorization: Bearer $TASKPLANE_KEY"'] : []),
    ...own.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    ...(body === undefined ? [] : [`--data-raw ${quoted(JSON.stringify(body))}`]),
  ].join(" \\\n  ");
}

/** Return the call that sends a text to an agent and streams what it does. */
export function streaming({ url, text }: Ask, messageId: string): Call {
  const message = { messageId, role: "ROLE_USER", parts: [{ text }] };
  const body = { jsonrpc: "2.0", id: 1, method: "SendStreamingMessage", params: { message } };
  return { url, headers: { "A2A-Version": "1.0" }, body };
}

/** Return the same as a Python program, which needs httpx. */
export function python({ url, text, withKey }: Ask): string {
  return `# pip install httpx${withKey ? "; export TASKPLANE_KEY=..." : ""}
import json
${withKey ? "import os\n" : ""}import uuid

import httpx

message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": ${JSON.stringify(text)}}]}
request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
headers = {"A2A-Version": "1.0"${withKey ? ', "Authorization": f"Bearer {os.environ[\'TASKPLANE_KEY\']}"' : ""}}
with httpx.stream("POST", ${JSON.stringify(url)}, json=request, headers=headers, timeout=None) as answer:
    answer.raise_for_status()
    for line in answer.iter_lines():
        if line.startswith("data:"):
            print(json.dumps(json.loads(line[5:]), indent=2, ensure_ascii=False))
`;
}

/** Return the same as a JavaScript program for Node, without packages. */
export function javascript({ url, text, withKey }: Ask): string {
  return `// Node 20 or newer: save it as hello.mjs, then ${withKey ? "TASKPLANE_KEY=... " : ""}node hello.mjs
const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text: ${JSON.stringify(text)} }] };
const answer = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: { "Content-Type": "application/json", "A2A-Version": "1.0"${withKey ? ", Authorization: `Bearer ${process.env.TASKPLANE_KEY}`" : ""} },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendStreamingMessage", params: { message } }),
});
if (!answer.ok) throw new Error(await answer.text());
let rest = "";
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split("\\n");
  rest = lines.pop();
  for (const line of lines)
    if (line.startsWith("data:")) console.log(JSON.stringify(JSON.parse(line.slice(5)), null, 2));
}
`;
}

/** Quote for POSIX shells: nothing within is expanded. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

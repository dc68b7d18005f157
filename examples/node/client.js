// Stream a text with stubs made from the protos at run time.
//
//   npm install
//   node client.js HOST:PORT "Once upon a time" [API_KEY]
//
// Prints the text as it comes, then one line of JSON with how it ended.

const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const protoLoader = require("@grpc/proto-loader");

const PROTOS = path.join(__dirname, "..", "..", "protos");
const definition = protoLoader.loadSync("ssd/v1/generation.proto", {
  includeDirs: [PROTOS],
  longs: String, // seeds have 64 bits, more than a number holds
  enums: String,
  oneofs: true,
  defaults: true,
});
const { GenerationService } = grpc.loadPackageDefinition(definition).ssd.v1;

const [address, prompt, apiKey] = process.argv.slice(2);
const metadata = new grpc.Metadata();
if (apiKey) metadata.set("authorization", `Bearer ${apiKey}`);

const client = new GenerationService(address, grpc.credentials.createInsecure());
const request = { text: prompt, maxTokens: 24, temperature: 0.8, seed: "18446744073709551615" };
const call = client.Generate(request, metadata, { deadline: Date.now() + 60_000 });

let text = "";
const tokenIds = [];
call.on("data", (response) => {
  if (response.event === "delta") {
    text += response.delta.text;
    tokenIds.push(...response.delta.tokenIds);
    process.stdout.write(response.delta.text);
  } else if (response.event === "complete") {
    const { finishReason, usage, seed } = response.complete;
    console.log();
    console.log(
      JSON.stringify({ text, tokenIds, finishReason, completion: usage.completionTokens, seed }),
    );
  }
});
call.on("end", () => client.close());
call.on("error", (error) => {
  console.error(`${grpc.status[error.code]}: ${error.details}`);
  process.exitCode = 1;
  client.close();
});

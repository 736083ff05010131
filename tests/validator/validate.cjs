// Runs the Khronos validator over the files given and prints one JSON line for each that has something to say.
// Usage: node validate.cjs FILE...   (NODE_PATH points at the folder with gltf-validator)
const fs = require('fs');
const path = require('path');
const validator = require('gltf-validator');

(async () => {
  for (const file of process.argv.slice(2)) {
    const report = await validator.validateBytes(new Uint8Array(fs.readFileSync(file)), {
      uri: path.basename(file),
      maxIssues: 50,
      externalResourceFunction: (uri) =>
        Promise.resolve(new Uint8Array(fs.readFileSync(path.join(path.dirname(file), decodeURIComponent(uri))))),
    });
    const { numErrors, numWarnings, messages } = report.issues;
    const informations = [...new Set(messages.filter((m) => m.severity === 2).map((m) => m.code))].sort();
    const bad = messages.filter((m) => m.severity < 2).slice(0, 5);
    console.log(JSON.stringify({ file, errors: numErrors, warnings: numWarnings, informations, bad }));
  }
})();

// glTF-Transform's resample with its defaults: node resample.mjs NODE_MODULES IN OUT. For benches/reduce.rs.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const [modules, input, output] = process.argv.slice(2);
const require = createRequire(resolve(modules, 'resample.js'));
const { NodeIO } = require('@gltf-transform/core');
const { ALL_EXTENSIONS } = require('@gltf-transform/extensions');
const { resample } = require('@gltf-transform/functions');

const io = new NodeIO().registerExtensions(ALL_EXTENSIONS);
const document = await io.read(input);
await document.transform(resample());
await io.write(output, document);

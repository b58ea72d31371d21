// The package as Node gives it to a module: its default export, not an object that has one. esbuild resolves it so for
// @grafana/ui's .mjs files, which were bundled by another tool.
module.exports = require('./node_modules/react-custom-scrollbars-2/lib/index.js').Scrollbars;

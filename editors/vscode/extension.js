// Starts `bifrost lsp` for Theta files; everything else is the server's.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

async function start() {
  const command = vscode.workspace.getConfiguration("bifrost").get("path", "bifrost");
  const server = { command, args: ["lsp"], transport: TransportKind.stdio };
  const options = {
    documentSelector: [{ language: "theta" }],
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.theta") },
  };
  client = new LanguageClient("bifrost", "Bifrost", server, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `\`${command} lsp\` does not start: ${error.message}. The setting bifrost.path says where bifrost is.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("bifrost.restart", async () => {
      await stop();
      await start();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };

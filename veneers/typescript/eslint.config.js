// Rules for the runtime, its tests and samples: those of typescript-eslint that know types.

import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  {
    ignores: [
      "build/",
      "dist/",
      "node_modules/",
      "bundle.mjs",
      "eslint.config.js",
      "tests/types.ts",
      "tests/installed.mjs",
    ],
  },
  eslint.configs.recommended,
  tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { project: ["./tests/tsconfig.json"], tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-explicit-any": "error",
      // Failures are values; `throw` carries one to the function that returns it.
      "@typescript-eslint/only-throw-error": "off",
      // A promise of this library that nobody awaits is right: its call is recorded.
      "@typescript-eslint/no-floating-promises": ["error", { checkThenables: false }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_+$", varsIgnorePattern: "^_+$" }],
      "@typescript-eslint/restrict-template-expressions": "off",
      // A place is whatever the program has for it.
      "@typescript-eslint/no-base-to-string": "off",
      "@typescript-eslint/no-unsafe-function-type": "error",
    },
  },
  {
    files: ["tests/**", "samples/**", "bench/**"],
    rules: {
      // Tests may be asynchronous for their form.
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/no-misused-promises": "off",
      // `test` of node:test returns a promise that its runner awaits.
      "@typescript-eslint/no-floating-promises": "off",
    },
  },
);

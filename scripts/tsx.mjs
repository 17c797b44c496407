// Loads tsx, so that node runs TypeScript. Unlike `node --import tsx`, it prints one line if packages are not installed.
try {
  await import('tsx');
} catch (error) {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  process.stderr.write('the packages are not installed: run `npm ci`\n');
  process.exit(1);
}

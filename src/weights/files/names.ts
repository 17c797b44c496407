// Names of the files of a checkpoint. A Hugging Face folder has its weights under the same name.
export const manifestFile = 'manifest.json';
export const weightsFile = 'model.safetensors';
export const optimizerFile = 'optimizer.safetensors';

import { saveBlob } from '../api/download';

export const saveText = (text: string, name: string, type: string): void => saveBlob(new Blob([text], { type }), name);

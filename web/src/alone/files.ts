// Files that are dropped or chosen.

export interface Dropped {
  name: string; // of the directory, or of the one file
  files: File[];
}

function EntriesOf(directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = directory.createReader();
  return new Promise((resolve, reject) => {
    const all: FileSystemEntry[] = [];
    const more = () =>
      reader.readEntries((some) => {
        all.push(...some);
        if (some.length === 0) resolve(all);
        else more();
      }, reject);
    more();
  });
}

// The files of a directory, or of a run's best checkpoint.
async function FilesIn(directory: FileSystemDirectoryEntry): Promise<File[]> {
  const entries = await EntriesOf(directory);
  const best = entries.find(({ isDirectory, name }) => isDirectory && name === "best");
  if (best) return FilesIn(best as FileSystemDirectoryEntry);
  return Promise.all(
    entries
      .filter(({ isFile }) => isFile)
      .map((one) => new Promise<File>((...ends) => (one as FileSystemFileEntry).file(...ends))),
  );
}

export async function DroppedOf(transfer: DataTransfer): Promise<Dropped> {
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const files = [...transfer.files];
  const [only] = entries;
  if (entries.length === 1 && only?.isDirectory)
    return { name: only.name, files: await FilesIn(only as FileSystemDirectoryEntry) };
  return Chosen(files);
}

export function Chosen(files: File[]): Dropped {
  return { name: files.length === 1 ? (files[0]?.name ?? "") : `${files.length} files`, files };
}

// Whether it is a text to train on, rather than a model.
export function IsText({ files }: Dropped): boolean {
  return files.length === 1 && /\.(txt|md)$/i.test(files[0]?.name ?? "");
}

// A file system for wa-sqlite: the files of a folder, which processes share as the tabs of a browser share files.

import { closeSync, existsSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';

import { FacadeVFS } from '@journeyapps/wa-sqlite/src/FacadeVFS.js';
import * as VFS from '@journeyapps/wa-sqlite/src/VFS.js';
import { WebLocksMixin } from '@journeyapps/wa-sqlite/src/WebLocksMixin.js';

class Files extends FacadeVFS {
  /** The open files, by the numbers that SQLite gives them. */
  #open = new Map();
  #folder;

  constructor(name, module, { folder }) {
    super(name, module);
    this.#folder = folder;
  }

  getFilename(id) {
    return this.#open.get(id).name;
  }

  jOpen(name, id, flags, outFlags) {
    const file = path.join(this.#folder, name ?? `temporary-${id}`);
    if (!(flags & VFS.SQLITE_OPEN_CREATE) && !existsSync(file)) return VFS.SQLITE_CANTOPEN;
    this.#open.set(id, { name, file, flags, descriptor: openSync(file, existsSync(file) ? 'r+' : 'w+') });
    outFlags.setInt32(0, flags, true);
    return VFS.SQLITE_OK;
  }

  jClose(id) {
    const { descriptor, file, flags } = this.#open.get(id);
    this.#open.delete(id);
    closeSync(descriptor);
    if (flags & VFS.SQLITE_OPEN_DELETEONCLOSE) rmSync(file, { force: true });
    return VFS.SQLITE_OK;
  }

  jRead(id, data, offset) {
    const bytes = new Uint8Array(data.byteLength);
    const count = readSync(this.#open.get(id).descriptor, bytes, 0, bytes.length, offset);
    data.set(bytes);
    return count === bytes.length ? VFS.SQLITE_OK : VFS.SQLITE_IOERR_SHORT_READ;
  }

  jWrite(id, data, offset) {
    writeSync(this.#open.get(id).descriptor, data.slice(), 0, data.byteLength, offset);
    return VFS.SQLITE_OK;
  }

  jTruncate(id, size) {
    ftruncateSync(this.#open.get(id).descriptor, size);
    return VFS.SQLITE_OK;
  }

  jSync(id) {
    fsyncSync(this.#open.get(id).descriptor);
    return VFS.SQLITE_OK;
  }

  jFileSize(id, size) {
    size.setBigInt64(0, BigInt(fstatSync(this.#open.get(id).descriptor).size), true);
    return VFS.SQLITE_OK;
  }

  jDelete(name) {
    rmSync(path.join(this.#folder, name), { force: true });
    return VFS.SQLITE_OK;
  }

  jAccess(name, _flags, out) {
    out.setInt32(0, existsSync(path.join(this.#folder, name)) ? 1 : 0, true);
    return VFS.SQLITE_OK;
  }
}

/** The same file system, with the locks that wa-sqlite takes by `navigator.locks`. */
export const LockedFiles = WebLocksMixin(Files);

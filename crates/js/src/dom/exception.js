// DOMException: https://webidl.spec.whatwg.org/#idl-DOMException

/** The names of exceptions that have a code, each at the index of its code. */
const CODES = [
  'INDEX_SIZE_ERR IndexSizeError', 'DOMSTRING_SIZE_ERR', 'HIERARCHY_REQUEST_ERR HierarchyRequestError',
  'WRONG_DOCUMENT_ERR WrongDocumentError', 'INVALID_CHARACTER_ERR InvalidCharacterError', 'NO_DATA_ALLOWED_ERR',
  'NO_MODIFICATION_ALLOWED_ERR NoModificationAllowedError', 'NOT_FOUND_ERR NotFoundError',
  'NOT_SUPPORTED_ERR NotSupportedError', 'INUSE_ATTRIBUTE_ERR InUseAttributeError', 'INVALID_STATE_ERR InvalidStateError',
  'SYNTAX_ERR SyntaxError', 'INVALID_MODIFICATION_ERR InvalidModificationError', 'NAMESPACE_ERR NamespaceError',
  'INVALID_ACCESS_ERR InvalidAccessError', 'VALIDATION_ERR', 'TYPE_MISMATCH_ERR TypeMismatchError',
  'SECURITY_ERR SecurityError', 'NETWORK_ERR NetworkError', 'ABORT_ERR AbortError', 'URL_MISMATCH_ERR URLMismatchError',
  'QUOTA_EXCEEDED_ERR QuotaExceededError', 'TIMEOUT_ERR TimeoutError', 'INVALID_NODE_TYPE_ERR InvalidNodeTypeError',
  'DATA_CLONE_ERR DataCloneError',
].map((line, index) => [...line.split(' '), index + 1]);

function makeDOMException() {
  const exceptions = slots();
  const codes = setPrototypeOf(Object.fromEntries(CODES.filter(({ length }) => length === 3).map(([, name, code]) => [name, code])), null);

  class DOMException {
    constructor(message = '', name = 'Error') {
      // Made by the language, so that it has a stack where errors have one.
      const state = { message: `${message}`, name: `${name}` };
      return exceptions.give(construct(Error, [], new.target), state);
    }

    get name() {
      return exceptions.on(this).name;
    }

    get message() {
      return exceptions.on(this).message;
    }

    get code() {
      return codes[exceptions.on(this).name] ?? 0;
    }
  }
  setPrototypeOf(DOMException.prototype, Error.prototype);
  asInterface(DOMException, 'DOMException', Object.fromEntries(CODES.map(([constant, ...rest]) => [constant, rest.at(-1)])));
  return DOMException;
}

const DOMException = global.DOMException ?? makeDOMException();

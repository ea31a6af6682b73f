import Glibc

/// A POSIX extended regular expression (`man 7 regex`) on the bytes of a text.
@safe final class Pattern: @unchecked Sendable {
  let text: String
  private let compiled: UnsafeMutablePointer<regex_t>

  /// Maximum bytes of a pattern: the compiled size grows with its repetitions.
  static let maximumBytes = 200
  private static let maximumRepetitions = 2

  /// - Throws: The error message of the C library.
  init(_ text: String) throws(InputFault) {
    guard text.utf8.count <= Self.maximumBytes, !text.utf8.contains(0) else {
      throw InputFault("must be a pattern of at most \(Self.maximumBytes) bytes")
    }
    guard text.utf8.count(where: { $0 == UInt8(ascii: "{") }) <= Self.maximumRepetitions else {
      throw InputFault("has more than \(Self.maximumRepetitions) counted repetitions")
    }
    let compiled = UnsafeMutablePointer<regex_t>.allocate(capacity: 1)
    let code = unsafe regcomp(compiled, text, REG_EXTENDED | REG_NOSUB)
    guard code == 0 else {
      var message = [CChar](repeating: 0, count: 256)
      unsafe regerror(code, compiled, &message, message.count)
      unsafe compiled.deallocate()
      let words = message.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
      throw InputFault("is not a regular expression: \(String(decoding: words, as: UTF8.self))")
    }
    self.text = text
    unsafe self.compiled = compiled
  }

  deinit {
    unsafe regfree(compiled)
    unsafe compiled.deallocate()
  }

  /// Whether the pattern matches anywhere in the text.
  func matches(_ text: String) -> Bool { unsafe regexec(compiled, text, 0, nil, 0) == 0 }
}

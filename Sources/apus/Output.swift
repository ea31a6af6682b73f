import ApusCommand
import ApusWire
import Glibc

/// What a command says: results on standard output, everything else on standard error.
enum Output {
  static func standard(_ text: String) { write(text, STDOUT_FILENO) }

  /// One object on one line.
  static func json(_ value: JSONValue) { write(value.text + "\n", STDOUT_FILENO) }

  static func diagnostic(_ text: String) { write(text, STDERR_FILENO) }

  /// At once, so that whoever reads a stream sees each line when it is there.
  private static func write(_ text: String, _ descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { buffer in
        unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
      }
      // Whoever closed the other end wants no more of it.
      guard count > 0 || errno == EINTR else { return }
      rest = rest.dropFirst(max(count, 0))
    }
  }
}

/// The result of a command in both forms.
struct Report {
  /// What a script reads, by name.
  var fields: KeyValuePairs<String, JSONValue?>
  /// What a person reads.
  var text: String

  func print(_ invocation: Invocation) {
    if invocation.isOn(ApusOptions.json) {
      Output.json(.members(fields))
    } else {
      Output.standard(text)
    }
  }
}

/// Lines of a name and a value, the values below each other.
func table(_ rows: KeyValuePairs<String, String>) -> String { table(Array(rows)) }

func table(_ rows: [(key: String, value: String)]) -> String {
  let width = rows.map(\.key.count).max() ?? 0
  return rows.map { name, value in
    "  \(name)\(String(repeating: " ", count: width - name.count))  \(value)\n"
  }.joined()
}

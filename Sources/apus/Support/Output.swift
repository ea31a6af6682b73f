import ApusCommand
import ApusWire
import Glibc

/// The output of a command: results on standard output, everything else on standard error.
enum Output {
  static func standard(_ text: String) { write(text, STDOUT_FILENO) }

  /// One object on one line.
  static func json(_ value: JSONValue) { write(value.text + "\n", STDOUT_FILENO) }

  static func diagnostic(_ text: String) { write(text, STDERR_FILENO) }

  /// Unbuffered, so that a reader sees each line at once.
  private static func write(_ text: String, _ descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { buffer in
        unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
      }
      // The reader closed the other end: stop writing.
      guard count > 0 || errno == EINTR else { return }
      rest = rest.dropFirst(max(count, 0))
    }
  }
}

/// The result of a command in both forms.
struct Report {
  /// The members of the JSON output.
  var fields: KeyValuePairs<String, JSONValue?>
  /// The text output.
  var text: String

  func print(_ invocation: Invocation) {
    if invocation.isOn(ApusOptions.json) {
      Output.json(.members(fields))
    } else {
      Output.standard(text)
    }
  }
}

/// Lines of a name and a value, with aligned values.
func table(_ rows: KeyValuePairs<String, String>) -> String { table(Array(rows)) }

func table(_ rows: [(key: String, value: String)]) -> String {
  let width = rows.map(\.key.count).max() ?? 0
  return rows.map { name, value in
    "  \(name)\(String(repeating: " ", count: width - name.count))  \(value)\n"
  }.joined()
}

/// Rows with aligned columns; the last column is not padded.
func columns(_ rows: [[String]]) -> String {
  guard let count = rows.first?.count else { return "" }
  let widths = (0..<count).map { column in rows.map { $0[column].count }.max() ?? 0 }
  return rows.map { row in
    var line = ""
    for (column, text) in row.enumerated() {
      let padding = column == count - 1 ? 0 : widths[column] - text.count + 2
      line += text + String(repeating: " ", count: padding)
    }
    while line.last == " " { line.removeLast() }
    return line + "\n"
  }.joined()
}

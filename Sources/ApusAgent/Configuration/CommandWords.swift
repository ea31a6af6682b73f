/// The words of a command line. No shell reads it: no variables, no wildcards, no redirection.
///
/// Words are separated by blanks. Double quotes keep blanks, and a backslash keeps the next character, inside quotes
/// and outside.
enum CommandWords {
  /// Nil if a quote is not closed.
  static func split(_ text: String) -> [String]? {
    var words: [String] = []
    var word: String?
    var isQuoted = false
    var isEscaped = false
    for character in text {
      if isEscaped {
        word = (word ?? "") + String(character)
        isEscaped = false
      } else if character == "\\" {
        isEscaped = true
      } else if character == "\"" {
        isQuoted.toggle()
        word = word ?? ""
      } else if !isQuoted, character == " " || character == "\t" {
        if let done = word { words.append(done) }
        word = nil
      } else {
        word = (word ?? "") + String(character)
      }
    }
    if let word { words.append(word) }
    return isQuoted || isEscaped ? nil : words
  }
}

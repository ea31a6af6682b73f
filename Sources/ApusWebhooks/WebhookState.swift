package import ApusDirectory

/// What a service noted about a webhook, in a file of its own.
///
/// ```
/// position = 1234
/// failures = 3
/// error = the receiver answered 503
/// ```
package struct WebhookState: Sendable, Equatable {
  /// The number of the first event that was not delivered.
  package var position: UInt64
  /// Failed attempts in a row.
  package var failures = 0
  /// Why the last attempt failed; nil if it succeeded.
  package var error: String?

  package init(position: UInt64, failures: Int = 0, error: String? = nil) {
    self.position = position
    self.failures = failures
    self.error = error
  }

  init?(text: String) {
    guard let section = try? SectionFile(text: text).sections.first,
      let position = section["position"].flatMap({ UInt64($0) })
    else { return nil }
    self.init(
      position: position, failures: section["failures"].flatMap { Int($0) } ?? 0,
      error: section["error"])
  }

  var text: String {
    var values = [("position", String(position)), ("failures", String(failures))]
    if let error {
      let line = error.split(whereSeparator: \.isNewline).joined(separator: " ")
      values.append(("error", String(line.prefix(300))))
    }
    return SectionFile(sections: [.init(kind: "", name: "", values: values)]).text(heading: "")
  }
}

extension DataDirectory {
  /// What a service last noted about a webhook; nil if it did not yet. Of the parts of a cluster's devices the first
  /// one that has to tell of a fault.
  package func webhookState(_ name: String) -> WebhookState? {
    let parts = (try? partCount()) ?? 1
    let states = (0..<parts).compactMap { webhookState(name, part: $0) }
    return states.first { $0.error != nil } ?? states.first
  }

  func webhookState(_ name: String, part: Int) -> WebhookState? {
    (try? Files.readText(webhookStateFile(name, part))).flatMap(WebhookState.init(text:))
  }

  func save(_ state: WebhookState, of name: String, part: Int) throws {
    try Files.write(state.text, to: webhookStateFile(name, part), isPrivate: true)
  }
}

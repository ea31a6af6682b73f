/// A modifier after an address, as in `2195+confirm`. It applies to that address only: what one provider needs is wrong
/// or dangerous for another.
package enum ListenModifier: String, Sendable, Hashable, CaseIterable {
  case legacyTLS = "legacy-tls"
  case confirm
  case strict
  case lenient
  case proxy

  /// Of gateway listeners, which accept all.
  static let ofGateways = Set(allCases)
  static let ofFeedback: Set<ListenModifier> = [.legacyTLS, .proxy]
  /// Of listeners for providers and devices.
  static let ofOthers: Set<ListenModifier> = [.proxy]

  /// With the leading plus.
  package var text: String { "+\(rawValue)" }

  /// As written after an address, in the order of the help.
  package static func text(_ modifiers: Set<ListenModifier>) -> String {
    allCases.filter(modifiers.contains).map(\.text).joined()
  }

  /// The modifier that contradicts this one.
  private var opposite: ListenModifier? {
    switch self {
    case .strict: .lenient
    case .lenient: .strict
    case .legacyTLS, .confirm, .proxy: nil
    }
  }

  /// The listeners that take it, as an error names them.
  private var owners: String {
    switch self {
    case .legacyTLS: "gateway and feedback listeners"
    case .confirm, .strict, .lenient: "gateway listeners"
    case .proxy: "listeners of the service"
    }
  }

  package var help: String {
    switch self {
    case .legacyTLS:
      """
      Speak TLS 1.0 and 1.1 as well, for legacy senders that support nothing newer. Both are broken: an attacker on \
      the path can read or change everything, including tokens and payloads. Use it only for addresses that only those \
      senders can reach. Gateway and feedback listeners.
      """
    case .confirm:
      """
      Respond to each accepted notification of commands 1 and 2 with status 0 and its identifier, which Apple never \
      did. For legacy senders that expect it; others treat it as an error. Gateway listeners only.
      """
    case .strict:
      """
      Follow Apple's pages to the letter: payloads of at most 256 bytes with commands 0 and 1, and priority 10 only \
      for notifications that show or play something. Gateway listeners only.
      """
    case .lenient:
      """
      Skip undefined items of a frame, accept any payload unchanged, and take priority 0 for none. Gateway listeners \
      only.
      """
    case .proxy:
      """
      Accept connections only from the proxies of --proxy-from, each of which must name its client first, in a header \
      of the PROXY protocol (version 1 or 2). Limits, log and console then show the client's address. All listeners.
      """
    }
  }

  /// Reads the modifiers after an address, each without its plus.
  static func read(
    _ names: some Sequence<Substring>, allowed: Set<ListenModifier>
  ) throws(ValueProblem) -> Set<ListenModifier> {
    var modifiers: Set<ListenModifier> = []
    for name in names {
      guard !name.isEmpty else { throw ValueProblem("has a + without a modifier") }
      guard let modifier = ListenModifier(rawValue: String(name)) else {
        throw unknown(name, allowed: allowed)
      }
      guard allowed.contains(modifier) else {
        throw ValueProblem(
          "has \(modifier.text), which only \(modifier.owners) accept; "
            + (allowed.isEmpty ? "leave it out" : "this one accepts \(list(allowed))"))
      }
      guard modifiers.insert(modifier).inserted else {
        throw ValueProblem("has \(modifier.text) twice; write it once")
      }
      if let opposite = modifier.opposite, modifiers.contains(opposite) {
        throw ValueProblem(
          "has \(opposite.text) and \(modifier.text) at one address; keep one of them")
      }
    }
    return modifiers
  }

  private static func unknown(
    _ name: Substring, allowed: Set<ListenModifier>
  ) -> ValueProblem {
    if allowed.isEmpty {
      return ValueProblem("has +\(name), but this listener accepts no modifiers; leave it out")
    }
    let hint = Suggestion.nearest(to: String(name), among: allowed.map(\.rawValue).sorted())
      .map { "; did you mean +\($0)?" }
    let which = allowed.count > 1 ? "not one of \(list(allowed))" : "not \(list(allowed))"
    return ValueProblem("has +\(name), which is \(which)\(hint ?? "")")
  }

  private static func list(_ modifiers: Set<ListenModifier>) -> String {
    allCases.filter(modifiers.contains).map(\.text).joined(separator: ", ")
  }
}

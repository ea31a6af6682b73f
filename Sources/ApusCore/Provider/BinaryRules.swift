import ApusModel

/// How a listener of the binary interface judges notifications: where Apple's pages and what senders really send
/// disagree, the operator decides.
package struct BinaryRules: Sendable, Hashable {
  /// Bytes of a payload with commands 0 and 1.
  package var simplePayloadBytes = Limits.binaryPayloadBytes
  /// Bytes of a payload with command 2.
  package var framedPayloadBytes = Limits.binaryPayloadBytes
  /// Bytes of a payload, with any command, where the certificate's topic is one for VoIP.
  package var voipPayloadBytes = Limits.binaryVoIPPayloadBytes
  /// Whether items of a number that nobody defined are passed over, instead of ending the connection.
  package var skipsUnknownItems = false
  /// Whether a payload that is no JSON object with `aps` is taken as it is, instead of "Processing error".
  package var acceptsAnyPayload = false
  /// Whether a notification that only has `content-available` is refused at priority 10, instead of being taken for 5.
  package var refusesImmediateContentAvailable = false
  /// Whether each accepted notification is confirmed with status 0 and its identifier. Apple never did.
  package var confirmsAccepted = false

  package init() {}

  /// What senders were seen to rely on.
  package static let standard = BinaryRules()

  /// The letter of Apple's pages: 256 bytes for commands 0 and 1, priority 10 only with something to be seen or heard.
  package static var strict: BinaryRules {
    var rules = BinaryRules()
    rules.simplePayloadBytes = Limits.binarySimplePayloadBytes
    rules.refusesImmediateContentAvailable = true
    return rules
  }

  /// As forgiving as can be without guessing.
  package static var lenient: BinaryRules {
    var rules = BinaryRules()
    rules.skipsUnknownItems = true
    rules.acceptsAnyPayload = true
    return rules
  }
}

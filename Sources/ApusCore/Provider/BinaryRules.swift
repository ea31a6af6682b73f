import ApusModel

/// How a listener of the binary interface judges notifications: where Apple's pages and real providers disagree, the
/// operator decides.
package struct BinaryRules: Sendable, Hashable {
  /// Bytes of a payload with commands 0 and 1.
  package var simplePayloadBytes = Limits.binaryPayloadBytes
  /// Bytes of a payload with command 2.
  package var framedPayloadBytes = Limits.binaryPayloadBytes
  /// Bytes of a payload, with any command, if the certificate's topic is a VoIP topic.
  package var voipPayloadBytes = Limits.binaryVoIPPayloadBytes
  /// Whether undefined items are skipped, instead of ending the connection.
  package var skipsUnknownItems = false
  /// Whether a payload that is not a JSON object with `aps` is accepted as it is, instead of "Processing error".
  package var acceptsAnyPayload = false
  /// Whether priority 0 stands for none, as versions of PushSharp send it, instead of "Processing error".
  package var acceptsPriorityZero = false
  /// Whether a notification with only `content-available` is rejected at priority 10, instead of being treated as 5.
  package var refusesImmediateContentAvailable = false
  /// Whether each accepted notification is confirmed with status 0 and its identifier. Apple never does.
  package var confirmsAccepted = false

  package init() {}

  /// What providers were seen to rely on.
  package static let standard = BinaryRules()

  /// As Apple's pages state: 256 bytes for commands 0 and 1, priority 10 only with something to see or hear.
  package static var strict: BinaryRules {
    var rules = BinaryRules()
    rules.simplePayloadBytes = Limits.binarySimplePayloadBytes
    rules.refusesImmediateContentAvailable = true
    return rules
  }

  /// As lenient as possible without guessing.
  package static var lenient: BinaryRules {
    var rules = BinaryRules()
    rules.skipsUnknownItems = true
    rules.acceptsAnyPayload = true
    rules.acceptsPriorityZero = true
    return rules
  }
}

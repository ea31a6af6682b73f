// The options of `apus-bench send-binary`, which measures the client library's binary interface.
extension BenchOptions {
  private static func ofBinaryClient<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, group: OptionGroup = .load,
    default defaultText: String? = nil, isRequired: Bool = false, _ help: String
  ) -> Option<Value> {
    Option(
      flag, syntax, in: [BenchVerb.sendBinary], group: group, scope: .flagOnly,
      default: defaultText, isRequired: isRequired, help: help)
  }

  package static let binaryTarget = ofBinaryClient(
    "--connect", .hostPort, group: .connection, default: "127.0.0.1:2195",
    "The gateway, as a numeric address.")
  package static let binaryAuthority = ofBinaryClient(
    "--authority", .file, group: .connection, isRequired: true,
    "The authority that issued the gateway's certificate for \"localhost\".")
  package static let binaryCertificate = ofBinaryClient(
    "--certificate", .file, group: .credentials, isRequired: true, "A provider's certificate.")
  package static let binaryCertificateKey = ofBinaryClient(
    "--key", .file, group: .credentials, isRequired: true, "The certificate's private key.")
  package static let binaryTokens = ofBinaryClient(
    "--tokens", .file, isRequired: true, "A file of device tokens, one per line, used in turn.")
  package static let binaryPushes = ofBinaryClient(
    "--notifications", .integer("N", 1...4_000_000_000), isRequired: true,
    "Notifications to measure.")
  package static let binaryWarmUp = ofBinaryClient(
    "--warm-up", .integer("N", 0...4_000_000_000), default: "100000",
    "Notifications to send before the measurement.")
  package static let binaryPayloadBytes = ofBinaryClient(
    "--payload-bytes", .integer("N", 20...2048), default: "239",
    "Bytes per payload. A frame has 61 more.")
  package static let binaryNumber = ofBinaryClient(
    "--number-from", .integer("N", 0...4_000_000_000),
    "Begin the text of each payload with a number, counted from N. Without it all are equal.")
  package static let binarySilence = ofBinaryClient(
    "--silence", .integer("MS", 100...60_000), default: "100",
    "Milliseconds of silence that count as acceptance.")
  package static let binaryConfirmed = ofBinaryClient(
    "--confirmed", .flag, "Expect the gateway to confirm each notification.")

  static let ofBinaryClient: [OptionDescription] = [
    binaryTarget.description, binaryAuthority.description, binaryCertificate.description,
    binaryCertificateKey.description, binaryTokens.description, binaryPushes.description,
    binaryWarmUp.description, binaryPayloadBytes.description, binaryNumber.description,
    binarySilence.description, binaryConfirmed.description,
  ]
}

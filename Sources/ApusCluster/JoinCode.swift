import ApusTrust
import ApusWire

/// A code with which one node may join a cluster. It has the form of an enrolment code: 128 random bits.
///
/// The database has the cluster key encrypted with the code, and a digest that finds it; so the code, and a connection
/// to the database, are all that a new node needs.
package struct JoinCode: Sendable, Equatable {
  private let code: EnrolmentCode

  /// Seconds for which a code is valid.
  package static let validSeconds: Int64 = 3600

  package init() { code = EnrolmentCode(bytes: randomBytes(EnrolmentCode.byteCount)) }

  /// Nil if the text cannot be a code.
  package init?(_ text: String) {
    guard let code = EnrolmentCode(text: Array(text.utf8).span) else { return nil }
    self.code = code
  }

  package var text: String { code.text }

  private func digest(_ purpose: String) -> [UInt8] {
    SHA256Digest(of: (Array("apus join \(purpose)\n".utf8) + code.bytes).span).bytes
  }

  /// What finds the invitation in the database.
  var id: [UInt8] { digest("id") }

  private var box: SealingBox { SealingBox(key: digest("key")) }

  func seal(_ clusterKey: [UInt8]) -> [UInt8] { box.seal(clusterKey, context: id) }

  func open(_ sealed: [UInt8]) -> [UInt8]? { box.open(sealed, context: id) }
}

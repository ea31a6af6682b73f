/// The node of a cluster that decides about devices, as the administration of an edge reaches it.
package protocol DecidingNode: Sendable {
  /// Why clients should be sent to other nodes than the edge; nil while there is no reason.
  var unreadiness: String? { get }

  /// Passes on what ``ForwardedRequest`` wrote.
  ///
  /// - Parameters:
  ///   - mayBeRepeated: Whether it is asked again if the link is lost before the answer has come.
  ///   - done: Called once, on a thread of the service, within `Limits.linkAdministrationMilliseconds`.
  func ask(
    _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void)
}

/// Why there is no answer.
package enum DecidingNodeFault: Error, Sendable, Equatable {
  /// No node decides, or none was reached.
  case notReached(String)
  /// It has the request, and may have done what it asks for.
  case lost(String)
}

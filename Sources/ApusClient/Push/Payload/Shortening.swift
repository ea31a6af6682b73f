public import ApusModel
import ApusWire

extension AlertPayload {
  /// The payload with its body shortened to fit, cut between characters as a person counts them: no emoji or letter is
  /// split. A payload that fits is returned unchanged.
  ///
  /// Only `body` is shortened. Throws if the rest alone is too large.
  ///
  /// - Parameters:
  ///   - limit: Bytes of the whole payload.
  ///   - ending: Replaces the removed text.
  public func shortened(
    toBytes limit: Int = Limits.payloadBytes, ending: String = "…"
  ) throws(PushRequestError) -> AlertPayload {
    let size = bytes.count
    guard size > limit else { return self }
    guard let body else { throw Self.tooLarge(size, limit) }
    let room = limit - (size - JSONText.quotedByteCount(body))
    guard let text = JSONText.prefix(of: body, quotedBytes: room, ending: ending) else {
      throw Self.tooLarge(size - JSONText.quotedByteCount(body), limit)
    }
    var payload = self
    payload.body = text
    return payload
  }

  private static func tooLarge(_ size: Int, _ limit: Int) -> PushRequestError {
    PushRequestError(
      .invalidPayload,
      "the payload has \(size) bytes without its body, but the limit is \(limit): shorten the rest")
  }
}

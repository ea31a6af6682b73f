public import ApusModel
import ApusWire

extension AlertPayload {
  /// The payload with as much of the body's end taken off as makes it fit, between two characters as a person counts
  /// them: no emoji and no letter is cut in two. A payload that fits stays as it is.
  ///
  /// Only `body` is shortened. Throws where the rest alone is too large.
  ///
  /// - Parameters:
  ///   - limit: Bytes of the whole payload.
  ///   - ending: What stands in the place of what was taken off.
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
      "the payload has \(size) bytes besides its body, and may have \(limit): shorten the rest")
  }
}

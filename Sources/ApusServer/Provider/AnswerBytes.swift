import ApusModel

/// A notification's id as 36 bytes of text, on the stack.
struct IDText {
  private var bytes = InlineArray<36, UInt8>(repeating: 0)

  init(_ id: NotificationID) {
    var output = bytes.mutableSpan
    id.write(to: &output, at: 0)
  }

  var span: Span<UInt8> {
    @_lifetime(borrow self)
    get { bytes.span }
  }
}

/// The JSON bodies of refused requests, made once.
enum RejectionBody {
  private static let plain: [[UInt8]] = Reason.allCases.map(\.json)

  /// `{"reason":"…"}`, and for 410 the time as an integer of milliseconds.
  static func bytes(of rejection: Rejection) -> [UInt8] {
    let body = plain[Int(rejection.reason.rawValue)]
    guard let timestamp = rejection.timestampMilliseconds else { return body }
    return body.dropLast() + Array(",\"timestamp\":\(timestamp)}".utf8)
  }
}

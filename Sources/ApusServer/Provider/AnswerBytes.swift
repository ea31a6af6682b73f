import ApusHTTP2
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

extension HTTP2ServerSession {
  /// 200, with the id as the provider spelled it, else `id`.
  func accept(_ request: HTTP2Request, _ id: NotificationID, unique: Span<UInt8>) {
    let given = request.value(.apnsID)
    guard given.isEmpty else {
      respond(request, status: 200, apnsID: given, apnsUniqueID: unique, body: Span())
      return
    }
    let own = IDText(id)
    respond(request, status: 200, apnsID: own.span, apnsUniqueID: unique, body: Span())
  }

  /// HEADERS, then the reason in one DATA frame that ends the stream; with the id as the provider spelled it where it
  /// gave one, else `id`.
  func reject(
    _ request: HTTP2Request, _ rejection: Rejection, _ id: NotificationID, isGiven: Bool
  ) {
    let body = RejectionBody.bytes(of: rejection)
    let status = rejection.reason.status
    guard !isGiven else {
      respond(
        request, status: status, apnsID: request.value(.apnsID), apnsUniqueID: Span(),
        body: body.span)
      return
    }
    let own = IDText(id)
    respond(request, status: status, apnsID: own.span, apnsUniqueID: Span(), body: body.span)
  }
}

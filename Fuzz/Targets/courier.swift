import ApusModel
import ApusWire

// Courier frames: however a stream is split, the same frames result; and everything a decoder accepts can be encoded
// again.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let first = bytes.first else { return 0 }
  let stream = Array(bytes[1...])
  let whole = Outcome(stream, step: max(1, stream.count))
  precondition(whole == Outcome(stream, step: 1 + Int(first)), "a split changes the frames")
  for frame in whole.frames { check(frame) }
  return 0
}

struct Frame: Equatable {
  var command: UInt8
  var fields: [UInt8]
}

struct Outcome: Equatable {
  var frames: [Frame] = []
  var fault: CourierFault?

  init(_ stream: [UInt8], step: Int) {
    var framer = CourierFramer()
    do throws(CourierFault) {
      for start in stride(from: 0, to: stream.count, by: step) {
        let part = stream.span.extracting(start..<min(start + step, stream.count))
        var offset = 0
        while let frame = try framer.next(part, at: &offset) {
          frames.append(Frame(command: frame.command, fields: frame.fields(in: part).copied()))
        }
        precondition(offset == part.count, "input is left over")
      }
    } catch {
      fault = error
    }
  }
}

func check(_ frame: Frame) {
  let body = frame.fields
  switch CourierCommand(rawValue: frame.command) {
  case .connect: again(CourierConnect.self, body)
  case .connectResponse: again(CourierConnectResponse.self, body)
  case .filter: again(CourierFilter.self, body)
  case .notification:
    for direction in [CourierDirection.toDevice, .toServer] {
      notification(body, direction, extensions: true)
      notification(body, direction, extensions: false)
    }
  case .acknowledgement: again(CourierAcknowledgement.self, body)
  case .keepAlive: again(CourierKeepAlive.self, body)
  case .noStorage: again(CourierNoStorage.self, body)
  case .flush: again(CourierFlush.self, body)
  case .appTokenRequest: again(CourierAppTokenRequest.self, body)
  case .appTokenAnswer: again(CourierAppTokenAnswer.self, body)
  case .setActiveInterval: again(CourierSetActiveInterval.self, body)
  case .setState: again(CourierSetState.self, body)
  case .goodbye: again(CourierGoodbye.self, body)
  case .enrolmentRequest:
    again(CourierEnrolmentRequest.self, body)
    code(body)
  case .enrolmentAnswer: again(CourierEnrolmentAnswer.self, body)
  case .renewalRequest: again(CourierRenewalRequest.self, body)
  case .renewalAnswer: again(CourierRenewalAnswer.self, body)
  case .renewalAdvice: again(CourierRenewalAdvice.self, body)
  case .channel:
    again(CourierChannelRequest.self, body)
    again(CourierChannelConfirmation.self, body)
  case .keepAliveAnswer, .flushAnswer, nil: break
  }
}

/// Decoding, encoding and decoding again must give a message that encodes to the same bytes.
func again<Message: CourierMessage>(_ type: Message.Type, _ body: [UInt8]) {
  guard let message = try? Message(decoding: body.span) else { return }
  var once: [UInt8] = []
  message.encode(to: &once)
  guard let second = try? Message(decoding: once.span.extracting(CourierFrame.headerBytes...))
  else { preconditionFailure("an encoded message cannot be decoded") }
  var twice: [UInt8] = []
  second.encode(to: &twice)
  precondition(once == twice, "a message changes in a round trip")
}

/// A read enrolment code can be written and read again unchanged.
func code(_ body: [UInt8]) {
  guard let request = try? CourierEnrolmentRequest(decoding: body.span),
    let code = EnrolmentCode(text: request.code.span)
  else { return }
  let text = Array(code.text.utf8)
  precondition(EnrolmentCode(text: text.span) == code, "a code changes in a round trip")
}

func notification(_ body: [UInt8], _ direction: CourierDirection, extensions: Bool) {
  func view(_ bytes: Span<UInt8>) -> CourierNotificationView? {
    try? CourierNotificationView(decoding: bytes, direction: direction, extensions: extensions)
  }
  guard let found = view(body.span) else { return }
  var encoded: [UInt8] = []
  found.notification.encode(
    payload: body.span.extracting(found.payload),
    collapseID: body.span.extracting(found.collapseID), direction: direction,
    extensions: extensions, to: &encoded)
  let room =
    CourierNotification.overheadBytes + found.payload.count + found.collapseID.count
  precondition(encoded.count <= room, "the overhead is larger than stated")
  let fields = Array(encoded[CourierFrame.headerBytes...])
  guard let second = view(fields.span) else {
    preconditionFailure("an encoded notification cannot be decoded")
  }
  precondition(found.notification == second.notification, "a notification changes in a round trip")
  precondition(body[found.payload] == fields[second.payload], "a payload changes in a round trip")
  precondition(body[found.collapseID] == fields[second.collapseID], "a collapse id changes")
}

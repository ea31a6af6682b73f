import ApusCore
import ApusModel
import Testing

/// "Sending channel management requests to APNs": the JSON of requests and answers.
@Suite("The JSON of channels")
struct ChannelBodyTests {
  private func reason(_ text: String) -> String {
    let body = Array(text.utf8)
    do throws(Refusal) {
      return "\(try ChannelBody.storage(decoding: body.span, byteCount: body.count))"
    } catch {
      return error.reason.text.description
    }
  }

  @Test(
    "Both storage policies are read, in any order and spelling of the push type",
    arguments: [
      (#"{"message-storage-policy":0,"push-type":"LiveActivity"}"#, "none"),
      (#"{"message-storage-policy":1,"push-type":"LiveActivity"}"#, "newest"),
      (#" { "push-type" : "liveactivity" , "message-storage-policy" : 1 } "#, "newest"),
      (#"{"push-type":"Liveactivity","message-storage-policy":1.0}"#, "newest"),
    ])
  func good(text: String, storage: String) { #expect(reason(text) == storage) }

  @Test(
    "Each fault has its reason",
    arguments: [
      ("", "PayloadEmpty"),
      ("{", "BadRequestPayload"),
      ("[]", "BadRequestPayload"),
      ("7", "BadRequestPayload"),
      (#"{"message-storage-policy":1,"push-type":"LiveActivity"}x"#, "BadRequestPayload"),
      (#"{"message-storage-policy":1,"push-type":"LiveActivity","name":"x"}"#, "BadRequestParams"),
      (#"{"message-storage-policy":1,"message-storage-policy":1}"#, "BadRequestParams"),
      (#"{"push-type":"LiveActivity"}"#, "BadRequestParams"),
      (#"{"message-storage-policy":2,"push-type":"LiveActivity"}"#, "BadRequestParams"),
      (#"{"message-storage-policy":-1,"push-type":"LiveActivity"}"#, "BadRequestParams"),
      (#"{"message-storage-policy":"1","push-type":"LiveActivity"}"#, "BadRequestParams"),
      (#"{"message-storage-policy":null,"push-type":"LiveActivity"}"#, "BadRequestParams"),
      (#"{"message-storage-policy":1}"#, "MissingPushType"),
      ("{}", "MissingPushType"),
      (#"{"message-storage-policy":1,"push-type":"alert"}"#, "InvalidPushType"),
      (#"{"message-storage-policy":1,"push-type":5}"#, "InvalidPushType"),
    ])
  func bad(text: String, expected: String) { #expect(reason(text) == expected) }

  @Test("A body beyond its limit is rejected by its size alone")
  func large() {
    let text = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
    #expect(reason(text + String(repeating: " ", count: 1024 - text.count)) == "newest")
    #expect(reason(text + String(repeating: " ", count: 1025 - text.count)) == "PayloadTooLarge")
  }

  @Test("Answers are written as documented")
  func answers() {
    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
    #expect(
      text(ChannelBody.encode(.none)) == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#
    )
    #expect(
      text(ChannelBody.encode(.newest))
        == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
    #expect(text(ChannelBody.encode([])) == #"{"channels":[]}"#)
    let ids = [
      ChannelID(high: 0, low: 0),
      ChannelID(high: 0x0001_0203_0405_0607, low: 0x0809_0a0b_0c0d_0eff),
    ]
    #expect(
      text(ChannelBody.encode(ids))
        == #"{"channels":["AAAAAAAAAAAAAAAAAAAAAA==","AAECAwQFBgcICQoLDA0O/w=="]}"#)
  }
}

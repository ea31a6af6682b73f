import ApusModel
import ApusTesting
import Testing

@Suite("Answers to providers match APNs")
struct ProviderAnswerTests {
  let service: TestService

  init() throws { service = try Shared.service }

  private func push(_ environment: Environment = .production) throws -> [RawHeader] {
    let device = try service.connect(nil, environment)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    return try service.pushHeaders(to: token, authorization: service.authorization())
  }

  @Test("Success is one HEADERS frame that ends the stream, without a body")
  func success() throws {
    let provider = try service.provider()
    let response = try provider.exchange(push(), body: TestService.payload)
    #expect(response.status == 200)
    #expect(response.frames.map(\.kind) == [1])
    #expect(response.frames[0].endsStream)
    #expect(response.headers.map(\.name) == [":status", "apns-id"])
    #expect(response["apns-id"]?.isUUID == true)
  }

  @Test(
    "An id is echoed byte for byte, on success and on failure",
    arguments: [
      "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90", "A1B2C3D4-E5F6-0718-293A-4B5C6D7E8F90",
      "A1b2C3d4-e5F6-0718-293a-4B5C6d7e8F90", "00000000-0000-0000-0000-000000000000",
    ])
  func echo(id: String) throws {
    let provider = try service.provider()
    let headers = try push().setting("apns-id", id)
    #expect(try provider.exchange(headers, body: TestService.payload)["apns-id"] == id)
    let refused = try provider.exchange(headers.without("apns-topic"), body: TestService.payload)
    expectRefusal(refused, 400, "MissingTopic")
    #expect(refused["apns-id"] == id)
    let early = try provider.exchange(headers.setting(":path", "/"), body: TestService.payload)
    expectRefusal(early, 404, "BadPath")
    #expect(early["apns-id"] == id)
  }

  @Test("Every answer to a request without an id has its own id")
  func generated() throws {
    let provider = try service.provider()
    let headers = try push()
    let ids = try (0..<4).map { number in
      let headers = number < 2 ? headers : headers.without("apns-topic")
      return try #require(provider.exchange(headers, body: TestService.payload)["apns-id"])
    }
    #expect(Set(ids).count == 4)
    #expect(ids.allSatisfy { $0.isUUID })
  }

  @Test("A unique id is sent on the development listener, and only with success")
  func uniqueID() throws {
    let provider = try service.provider(.development)
    let headers = try push(.development)
    let first = try provider.exchange(headers, body: TestService.payload)
    let second = try provider.exchange(headers, body: TestService.payload)
    #expect(first.headers.map(\.name) == [":status", "apns-id", "apns-unique-id"])
    let ids = [first, second].compactMap { $0["apns-unique-id"] }
    #expect(ids.count == 2 && ids[0] != ids[1] && ids.allSatisfy { $0.isUUID })
    let refused = try provider.exchange(headers.without("apns-topic"), body: TestService.payload)
    expectRefusal(refused, 400, "MissingTopic")
  }
}

import ApusEnrolment
import ApusModel
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Testing

@testable import ApusDirectory

@Suite("Names and tags of devices that enrol", .timeLimit(.minutes(30)))
struct EnrolmentLabelTests {
  let service: TestService
  var directory: TestDirectory { service.directory }
  private var now: Int64 { TestDirectory.nowSeconds }

  init() throws { service = try TestService() }

  private func code(
    name: String? = nil, tags: [String] = [], allowsOwnTags: Bool = false, uses: Int = 1
  ) throws -> String {
    let record = EnrolmentCodes.Record(
      name: name, madeSeconds: now, expiresSeconds: now + 3600, uses: uses,
      tags: try tags.map { try #require(DeviceTag($0)) }, allowsOwnTags: allowsOwnTags)
    return try directory.data.enrolmentCodes.make(record).text
  }

  private func ask(
    _ applicant: Applicant, code: String?, name: String? = "phone", tags: [String]
  ) throws -> RawCourierFrame {
    var frame = try applicant.request(code: code, name: name)
    for tag in tags { frame.fields.append(.init(0x43, Array(tag.utf8))) }
    return try Applicant.answer(applicant.send(frame))
  }

  private func labels(_ device: DeviceID) throws -> String {
    try LabelRegister(reading: directory.data).index.labels(of: device).text
  }

  @Test("The code's name and tags count; tags of the device where the code allows them")
  func codes() throws {
    for (allows, expected) in [
      (false, "name \"kitchen\", tags floor=2"),
      (true, "name \"kitchen-2\", tags floor=2 kiosk"),
    ] {
      let applicant = try Applicant(service)
      let code = try code(name: "kitchen", tags: ["floor=2"], allowsOwnTags: allows)
      let device = try applicant.device(
        ask(applicant, code: code, tags: ["floor=9", "kiosk"]))
      #expect(try labels(device.id) == expected)
      // The answer was lost: nothing changes.
      _ = try applicant.device(ask(applicant, code: code, tags: ["other"]))
      #expect(try labels(device.id) == expected)
    }
  }

  @Test("Devices of one code get its name with numbers; the name of a retired one is free")
  func numbers() throws {
    let code = try code(name: "kiosk", uses: 3)
    let devices = try (0..<2).map { _ in try Applicant(service).enrolled(code: code) }
    #expect(
      try devices.map { try labels($0.id) } == [
        "name \"kiosk\", no tags", "name \"kiosk-2\", no tags",
      ])
    try directory.data.retire(devices[0].id, nowSeconds: now)
    service.service.reload()
    let third = try Applicant(service).enrolled(code: code)
    #expect(try labels(third.id) == "name \"kiosk\", no tags")
    #expect(try labels(devices[0].id) == "no name, no tags")
  }

  @Test("Without a name from the code the device has its own; without any it has none")
  func ownName() throws {
    let named = try Applicant(service).enrolled(code: code())
    #expect(try labels(named.id) == "name \"phone\", no tags")
    let applicant = try Applicant(service)
    let nameless = try applicant.device(
      ask(applicant, code: code(tags: ["a"]), name: nil, tags: []))
    #expect(try labels(nameless.id) == "no name, tags a")
  }

  @Test("The operator sees name and tags of a pending device, approves or replaces them")
  func approval() throws {
    let data = directory.data
    for (name, tags, expected) in [
      (nil, [], "name \"phone\", tags floor=2 kiosk"),
      (nil, ["floor=3"], "name \"phone-2\", tags floor=3 kiosk"),
      ("hall", [], "name \"hall\", tags floor=2 kiosk"),
    ] as [(String?, [String], String)] {
      let applicant = try Applicant(service)
      #expect(try ask(applicant, code: nil, tags: ["floor=2", "kiosk"])[0x40] == [1])
      let request = try data.pendingEnrolments.request(applicant.fingerprint)
      #expect(request.name == "phone" && request.tags.map(\.text) == ["floor=2", "kiosk"])
      #expect(try labels(request.device) == "no name, no tags")
      _ = try data.approveEnrolment(
        applicant.fingerprint, name: name, tags: tags.map { try #require(DeviceTag($0)) },
        nowSeconds: now)
      #expect(try labels(request.device) == expected)
    }
  }

  @Test("A name that another device has is not approved, and nothing is issued")
  func takenName() throws {
    let data = directory.data
    let holder = try Applicant(service).enrolled(code: code(name: "hall"))
    let applicant = try Applicant(service)
    _ = try applicant.ask(code: nil)
    for name in ["hall", "0123456789abcdef"] {
      let problem = #expect(throws: DirectoryProblem.self) {
        try data.approveEnrolment(applicant.fingerprint, name: name, nowSeconds: now)
      }
      if name == "hall" { #expect("\(problem, default: "")".contains(holder.id.text)) }
    }
    #expect(try data.pendingEnrolments.all().map(\.state) == [.waiting])
  }

  @Test("A malformed tag is refused", arguments: ["", "a b", "=x", "a=", "\u{ff}"])
  func malformed(tag: String) throws {
    let applicant = try Applicant(service)
    try ask(applicant, code: code(allowsOwnTags: true), tags: [tag]).expectRefused(2)
  }

  @Test("Codes keep their tags")
  func stored() throws {
    _ = try code(name: "kitchen", tags: ["floor=2", "kiosk"], allowsOwnTags: true)
    let record = try #require(directory.data.enrolmentCodes.all().first).record
    #expect(record.tags.map(\.text) == ["floor=2", "kiosk"] && record.allowsOwnTags)
  }
}

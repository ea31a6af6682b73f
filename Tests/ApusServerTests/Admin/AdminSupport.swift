import ApusCore
import ApusJobs
import ApusModel
import ApusStore
import ApusTesting
import ApusTrust
import ApusWeb
import ApusWebhooks
import ApusWire
import Foundation
import Testing

@testable import ApusLog
@testable import ApusDirectory
@testable import ApusAdmin
@testable import ApusServer

/// A service without workers, listeners and devices.
struct IdleService: AdministeredService {
  var share = DeviceShare.all
  let listeners: [OpenListener] = []
  let workerCount = 0
  let notificationBytes = 0
  let notificationByteLimit = 1 << 20
  let isEphemeral = false
  let connectionFigures = ConnectionFigures()
  let staleness: TrustStaleness? = nil

  func workerFacts() -> [WorkerFacts] { [] }
  func topicCounters() -> [TopicCounters] { [] }
  func rejections() -> [Reason: UInt64] { [:] }
  func deadTokenPushes() -> DeadTokenPushes { DeadTokenPushes() }
  func webhookFacts() -> [WebhookService.Facts] { [] }
  let droppedEvents: UInt64 = 0
  func enrolmentRefusals() -> [(reason: String, number: UInt64)] { [] }
  func sightings(of devices: [DeviceID]) -> [DeviceKey: DeviceSighting] { [:] }
  func send(_ push: TestPush, _ done: @escaping @Sendable (TestPushOutcome) -> Void) {
    done(TestPushOutcome(id: NotificationID(high: 1, low: 2)))
  }

  func relayFigures() -> [RelayFigures] { [] }
  func relayConnections() -> [(upstream: String, count: Int)] { [] }
  func relay(_ command: RelayCommand, _ app: AppID) {}
  func channels() -> [Channel] { [] }
  func channels(of app: AppID, in environment: Environment?) -> [Channel] { [] }
  func channel(_ id: ChannelID) -> Channel? { nil }
  func channelCensus() -> ChannelCensus? { nil }
  func create(_ channel: Channel, _ done: @escaping @Sendable (StoreError?) -> Void) { done(nil) }
  func delete(_ channel: Channel, _ done: @escaping @Sendable (StoreError?) -> Void) { done(nil) }
}

/// The administration API of a data directory, without a service and without sockets.
struct AdminBench {
  let directory: TestDirectory
  let api: AdminAPI
  var data: DataDirectory { directory.data }

  static let remotePeer = WebPeer.address([192, 0, 2, 1], port: 40_000)
  static let owner = WebPeer.local(user: 1000, process: 1)

  init(_ given: TestDirectory? = nil) throws {
    directory = try given ?? TestDirectory()
    let log = Log(minimumLevel: .error, sink: { _ in })
    let trust = try directory.data.trust(generation: 1, allowsES512: false)
    let audit = AuditLog(path: directory.data.auditFile)
    let view = try ServiceView(
      settings: AdminConfiguration(hasSocket: true, version: "1.2.3"), directory: directory.data,
      service: IdleService(), store: MemoryStore(),
      jobs: JobService(directory.data, log: log), expiries: ExpiryWatch(log: log),
      certificates: ServerCertificates([], log: log), audit: audit,
      labels: LabelRegister(directory.data), log: log, state: AdminState(trust),
      identity: DirectoryIdentity(directory.data.path),
      startedMilliseconds: 1_700_000_000_000)
    api = AdminAPI(view: view, gate: AdminGate(directory.data, audit: audit, log: log))
  }

  init(_ directory: TestDirectory, _ api: AdminAPI) {
    self.directory = directory
    self.api = api
  }

  struct Answer {
    var status: Int
    var json: JSONValue
    var text: String
    var headers: [WebField]
    var holdMilliseconds: Int64
  }

  /// Like the server: the header first, then the complete request.
  func ask(
    _ method: String, _ path: String, _ body: String? = nil, token: String? = nil,
    peer: WebPeer = owner, contentType: String = "application/json"
  ) throws -> Answer {
    let parts = path.split(separator: "?", maxSplits: 1)
    var request = WebRequest(
      method: method, segments: try #require(WebRequest.segments(ofPath: String(parts[0]))),
      peer: peer)
    if parts.count > 1 {
      request.query = parts[1].split(separator: "&").map { pair in
        let sides = pair.split(separator: "=", maxSplits: 1).map(String.init)
        return WebField(sides[0], sides.count > 1 ? sides[1] : "")
      }
    }
    if let token { request.headers.append(WebField("authorization", "Bearer \(token)")) }
    if let body {
      request.headers += [
        WebField("content-type", contentType), WebField("content-length", "\(body.utf8.count)"),
      ]
    }
    if let refusal = api.screen(&request) { return answer(refusal) }
    request.body = Array((body ?? "").utf8)
    return answer(api.answer(request))
  }

  private func answer(_ response: WebResponse) -> Answer {
    guard case .bytes(let bytes) = response.body else {
      preconditionFailure("no stream is asked for")
    }
    return Answer(
      status: response.status, json: (try? JSONValue(parsing: bytes.span)) ?? .null,
      text: String(decoding: bytes, as: UTF8.self), headers: response.headers,
      holdMilliseconds: response.holdMilliseconds)
  }

  func token(_ name: String, _ scopes: AdminScopes) throws -> String {
    try data.addAdminToken(name: name, scopes: scopes, nowSeconds: TestDirectory.nowSeconds)
  }

  func auditLines() throws -> [JSONValue] {
    let text = (try? String(contentsOfFile: data.auditFile, encoding: .utf8)) ?? ""
    return try text.split(separator: "\n").map { line in
      let bytes = Array(line.utf8)
      return try JSONValue(parsing: bytes.span)
    }
  }
}

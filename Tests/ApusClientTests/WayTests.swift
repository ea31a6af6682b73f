import ApusLoop
import ApusModel
import ApusTrust
import Synchronization
import Testing

@testable import ApusClient

@Suite("Connecting to a service", .timeLimit(.minutes(30)))
struct WayTests {
  private func push() -> PushRequest {
    var request = PushRequest(
      token: "0a0b", topic: "com.example.app", payload: AlertPayload(body: "x").bytes)
    request.id = Bench.id(1)
    return request
  }

  private let accepted = SendOutcome.accepted(apnsID: Bench.id(1), uniqueID: nil)

  /// Why there was no connection.
  private func failure(_ outcome: SendOutcome) -> String? {
    guard case .unknown(let cause, retryMayDuplicate: false) = outcome,
      cause.code == .connectionFailed
    else { return nil }
    return cause.detail
  }

  // MARK: Names

  @Test("A name that cannot be resolved is reported as the reason")
  func noName() async throws {
    let service = try ScriptedService([])
    let client = try service.client {
      $0.resolver = { .failure(.unresolved(host: $0.host, reason: "try again later")) }
    }
    let outcome = try await client.send(push())
    #expect(failure(outcome)?.contains("try again later") == true)
    await client.close()
  }

  @Test("A name without addresses is reported as the reason")
  func noAddress() async throws {
    let service = try ScriptedService([])
    let client = try service.client { $0.resolver = { _ in .success([]) } }
    #expect(failure(try await client.send(push())) == "127.0.0.1 has no address")
    await client.close()
  }

  @Test("A name is resolved again for each attempt, and each address is tried")
  func movedName() async throws {
    let service = try ScriptedService([])
    let (dead, good) = (deadPort(), service.port)
    let lookUps = Mutex(0)
    let client = try service.client { configuration in
      configuration.resolver = { _ in
        let number = lookUps.withLock {
          $0 += 1
          return $0
        }
        let isLate = number > 1
        return .success([
          .loopbackIPv4(port: dead), .loopbackIPv4(port: isLate ? good : dead),
        ])
      }
    }
    #expect(try await client.send(push()) == accepted)
    #expect(lookUps.withLock { $0 } == 2)
    await client.close()
  }

  /// A port without a listener: it was bound and released just before.
  private func deadPort() -> UInt16 {
    let loop = EventLoop(name: "dead")
    let listener = try? Listener(loop: loop, address: .loopbackIPv4(port: 0)) { _, _ in }
    let port = listener?.localAddress?.port ?? 1
    listener?.close()
    return port
  }

  // MARK: TLS

  @Test("An expired certificate is not trusted, and the failure is final")
  func expired() async throws {
    let now = EventLoop.wallClockMilliseconds() / 1000
    let service = try ScriptedService([], validity: Validity(now: now - 86_400 * 30, days: 1))
    let client = try service.client()
    #expect(failure(try await client.send(push()))?.contains("expired") == true)
    #expect(await client.metrics().connectionsFailed == 1)
    await client.close()
  }

  @Test("A service that accepts the connection and stays silent times out")
  func slow() async throws {
    let loop = EventLoop(name: "silent")
    let taken = Mutex<[Int32]>([])
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { descriptor, _ in
      taken.withLock { $0.append(descriptor) }
    }
    let port = try #require(listener.localAddress?.port)
    loop.start()
    let service = try ScriptedService([])
    let client = try service.client { configuration in
      configuration.endpoint.port = port
      configuration.connectTimeoutSeconds = 1
    }
    let outcome = try await client.send(push())
    #expect(failure(outcome)?.contains("the TLS handshake") == true)
    await client.close()
    loop.stop()
  }

  // MARK: A proxy

  @Test("A push passes through a proxy with the user's credentials")
  func proxy() async throws {
    let service = try ScriptedService([])
    let proxy = try ScriptedProxy(to: service.port)
    let client = try service.client {
      $0.proxy = .init(
        Endpoint(host: "127.0.0.1", port: proxy.port), user: "Aladdin", password: "open sesame")
    }
    #expect(try await client.send(push()) == accepted)
    await client.close()
    #expect(proxy.heads.count == 1)
    #expect(proxy.heads.first?.hasPrefix("CONNECT 127.0.0.1:\(service.port) HTTP/1.1\r\n") == true)
    #expect(proxy.heads.first?.contains("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == true)
  }

  @Test("A proxy that refuses the client is reported as the reason")
  func proxyRefuses() async throws {
    let service = try ScriptedService([])
    let proxy = try ScriptedProxy(
      to: service.port, answer: "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    let client = try service.client {
      $0.proxy = .init(Endpoint(host: "127.0.0.1", port: proxy.port))
    }
    #expect(failure(try await client.send(push()))?.contains("407") == true)
    await client.close()
    #expect(service.seen.isEmpty)
  }

  // MARK: Reports

  private final class Listening: ClientObserver {
    let events = Mutex<[ClientEvent]>([])
    func client(_ event: ClientEvent) { events.withLock { $0.append(event) } }
  }

  @Test("An observer receives connection events, and the metrics count")
  func observer() async throws {
    let service = try ScriptedService([[.accept, .cut], []])
    let listening = Listening()
    let client = try service.client { $0.observer = listening }
    _ = try await client.send(push())
    _ = try await client.send(push())
    let metrics = await client.metrics()
    #expect(metrics.accepted == 1 && metrics.unknown == 1)
    #expect(metrics.latency.count >= 1)
    #expect(metrics.connectionsMade == 1)
    #expect(await client.diagnose().limit == nil)
    await client.close()
    let kinds = listening.events.withLock { $0.map(\.kind) }
    #expect(kinds.first == .connectionMade("127.0.0.1:\(service.port)"))
    guard case .connectionEnded = kinds.dropFirst().first else {
      Issue.record("\(kinds)")
      return
    }
  }
}

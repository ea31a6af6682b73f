import ApusModel
import Testing

@testable import ApusClient

@Suite("A client and a misbehaving service", .timeLimit(.minutes(30)))
struct ScriptedTests {
  private func push(_ number: UInt64 = 1) -> PushRequest {
    var request = PushRequest(
      token: "0a0b", topic: "com.example.app", payload: AlertPayload(body: "x").bytes)
    request.id = Bench.id(number)
    return request
  }

  private func text(_ number: UInt64) -> String { Bench.id(number).text.lowercased() }

  @Test(
    "Requests refused unread are sent again on a new connection, with the same id",
    arguments: [ScriptedService.Action.refuse, .goAway])
  func again(action: ScriptedService.Action) async throws {
    let service = try ScriptedService([[.accept, action], []])
    let client = try service.client()
    #expect(try await client.send(push(1)) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
    #expect(try await client.send(push(2)) == .accepted(apnsID: Bench.id(2), uniqueID: nil))
    await client.close()
    #expect(service.seen == [[text(1), text(2)], [text(2)]])
  }

  @Test(
    "A request on a lost connection is unknown, and the connection is replaced",
    arguments: [ScriptedService.Action.cut, .halfClose])
  func ends(action: ScriptedService.Action) async throws {
    let service = try ScriptedService([[.accept, action], []])
    let client = try service.client()
    #expect(try await client.send(push(1)) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
    guard case .unknown(let cause, retryMayDuplicate: true) = try await client.send(push(2)) else {
      Issue.record("an outcome that nobody can know")
      return
    }
    #expect(cause.code == .connectionLost)
    #expect(try await client.send(push(3)) == .accepted(apnsID: Bench.id(3), uniqueID: nil))
    await client.close()
    #expect(service.seen == [[text(1), text(2)], [text(3)]])
  }

  @Test("An answer together with the end of the connection counts")
  func lastAnswer() async throws {
    let service = try ScriptedService([[.acceptAndHalfClose], []])
    let client = try service.client()
    #expect(try await client.send(push(1)) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
    await client.close()
    #expect(service.seen == [[text(1)]])
  }

  @Test(
    "After a service closes before the first request, each push is sent once on a new connection",
    arguments: ScriptedService.EarlyEnd.allCases)
  func earlyEnd(_ end: ScriptedService.EarlyEnd) async throws {
    let service = try ScriptedService([], earlyEnds: [end])
    let client = try service.client()
    #expect(try await client.send(push(1)) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
    await client.close()
    #expect(service.seen == [[], [text(1)]])
  }

  @Test("An unanswered request times out, and the next one uses another connection")
  func silent() async throws {
    let service = try ScriptedService([[.accept, .ignore], []])
    let client = try service.client(timeoutSeconds: 1)
    #expect(try await client.send(push(1)) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
    guard case .unknown(let cause, retryMayDuplicate: true) = try await client.send(push(2)) else {
      Issue.record("an outcome that nobody can know")
      return
    }
    #expect(cause.code == .timedOut)
    #expect(try await client.send(push(3)) == .accepted(apnsID: Bench.id(3), uniqueID: nil))
    await client.close()
    #expect(service.seen == [[text(1), text(2)], [text(3)]])
  }

  @Test("A service without HTTP/2 is distinguished from a missing one")
  func noHTTP2() async throws {
    let service = try ScriptedService([], applicationProtocols: [])
    let client = try service.client()
    guard case .unknown(let cause, retryMayDuplicate: false) = try await client.send(push()) else {
      Issue.record("no outcome was expected")
      return
    }
    #expect(cause.code == .connectionFailed)
    #expect(cause.detail.contains("does not speak HTTP/2"))
    await client.close()
  }

  @Test("A released client stays alive until waiting tasks have their outcome")
  func letGo() async throws {
    let service = try ScriptedService([])
    let push = push()
    let outcome = Task { try await service.client().send(push) }
    #expect(try await outcome.value == .accepted(apnsID: Bench.id(1), uniqueID: nil))
  }

  @Test("Closing waits for pending pushes")
  func closing() async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    let outcomes = await withTaskGroup(of: SendOutcome?.self) { group in
      for number in 1...50 as ClosedRange<UInt64> {
        let push = push(number)
        group.addTask { try? await client.send(push) }
      }
      group.addTask {
        await client.close()
        return nil
      }
      return await group.reduce(into: [SendOutcome]()) { list, outcome in
        if let outcome { list.append(outcome) }
      }
    }
    // Which of them finish before the end is chance, but each outcome is certain.
    #expect(outcomes.count == 50)
    for outcome in outcomes {
      switch outcome {
      case .accepted: break
      case .unknown(let cause, retryMayDuplicate: false): #expect(cause.code == .clientClosed)
      default: Issue.record("\(outcome)")
      }
    }
    let accepted = outcomes.count { if case .accepted = $0 { true } else { false } }
    #expect(service.seen.joined().count == accepted)
  }
}

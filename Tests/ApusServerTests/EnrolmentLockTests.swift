import ApusModel
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Testing

@testable import ApusDirectory
@testable import ApusEnrolment

/// What enrolment keeps is changed by the service and by commands, under the lock of the data directory.
@Suite("Enrolment and the lock of the data directory")
struct EnrolmentLockTests {
  private let directory: TestDirectory
  private let key: PrivateKey
  private var data: DataDirectory { directory.data }
  private var codes: EnrolmentCodes { data.enrolmentCodes }
  private var pending: PendingEnrolments { data.pendingEnrolments }

  init() throws {
    directory = try TestDirectory()
    key = try .generateP256()
  }

  /// Whether `body` takes the lock. Taking it creates the file.
  private func locks(_ body: () throws -> Void) throws -> Bool {
    Files.remove(data.lockFile)
    try body()
    return Files.exists(data.lockFile)
  }

  private func makeCode() throws -> EnrolmentCode {
    try codes.make(.init(name: nil, madeSeconds: 1, expiresSeconds: 100, uses: 1))
  }

  private var use: EnrolmentCodes.Use {
    .init(key: "00", device: DeviceID(1), seconds: 2, certificateDER: [1])
  }

  private var request: PendingEnrolments.Request {
    .init(
      key: key.publicKey.spkiSHA256.hex, name: "phone", address: "192.0.2.1", seconds: 1,
      device: DeviceID(1), isRenewal: false, hasCode: false)
  }

  private func certificateRequest() throws -> CertificateRequest {
    let der = try CertificateRequest.make(for: key)
    return try CertificateRequest(der: der.span)
  }

  @Test("Codes are made, used, withdrawn and removed under the lock")
  func codesUnderLock() throws {
    let makes = try locks { _ = try makeCode() }
    #expect(makes)
    let code = try makeCode()
    let takes = try locks { _ = try codes.take(code, use: 1, use) }
    #expect(takes)
    #expect(try Set(codes.all().map(\.used)) == [0, 1])
    let prunesEarly = try locks { try codes.prune(nowSeconds: 101) }
    #expect(!prunesEarly)
    let withdraws = try locks { _ = try codes.withdraw(hash: EnrolmentCodes.hash(code)) }
    #expect(withdraws)
    #expect(try codes.all().count == 1)
    let prunes = try locks {
      try codes.prune(nowSeconds: 100 + Limits.enrolmentCodeKeptSeconds)
    }
    #expect(prunes)
    #expect(try codes.all().isEmpty)
  }

  @Test("A code that is withdrawn while it is used makes no device, and leaves nothing behind")
  func withdrawnMeanwhile() throws {
    let code = try makeCode()
    _ = try codes.withdraw(hash: EnrolmentCodes.hash(code))
    let isTaken = try codes.take(code, use: 1, use)
    #expect(!isTaken)
    #expect(try Files.names(in: codes.path) == [])
  }

  @Test("Requests are added and removed under the lock; one for which there is no room takes none")
  func requestsUnderLock() throws {
    let first = request
    let certificateRequest = try certificateRequest()
    let removesNothing = try locks { try pending.remove(first.key) }
    #expect(!removesNothing)
    let adds = try locks { _ = try pending.add(first, certificateRequest) }
    #expect(adds)
    #expect(try pending.all() == [first])
    let removes = try locks { try pending.remove(first.key) }
    #expect(removes)
    #expect(try Files.names(in: pending.path) == [])
    for number in 0..<Limits.pendingEnrolmentsPerAddress {
      var other = first
      other.key = "\(number)"
      _ = try pending.add(other, certificateRequest)
    }
    let addsTooMany = try locks { _ = try pending.add(first, certificateRequest) }
    #expect(!addsTooMany)
    #expect(try pending.all().count == Limits.pendingEnrolmentsPerAddress)
  }

  @Test("A renewed certificate is kept until it expires, and removed later, under the lock")
  func renewalsUnderLock() throws {
    let now = TestDirectory.nowSeconds
    let device = try directory.device(validity: Validity(now: now, days: 5))
    let trust = try data.trust(generation: 1, allowsES512: false)
    let renewals = data.renewals
    let adds = try locks {
      let isAdded = try renewals.add(
        device.certificate, of: device.id, trust: trust, nowSeconds: now)
      #expect(isAdded)
    }
    #expect(adds)
    #expect(try renewals.known(of: device.id).issued == [device.certificate])
    // Longer than certificates are valid that are issued now, but this one still is.
    let prunesEarly = try locks { try renewals.prune(nowSeconds: now + 3 * 86_400, days: 1) }
    #expect(!prunesEarly)
    #expect(try renewals.known(of: device.id).count == 1)
    let prunes = try locks { try renewals.prune(nowSeconds: now + 6 * 86_400, days: 1) }
    #expect(prunes)
    #expect(try renewals.known(of: device.id).count == 0)
  }
}

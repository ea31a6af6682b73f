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

  /// Whether `body` takes the lock: the file is made by who takes it.
  private func locks(_ body: () throws -> Void) throws -> Bool {
    Files.remove(data.lockFile)
    try body()
    return Files.exists(data.lockFile)
  }

  private func code() throws -> EnrolmentCode {
    try codes.make(.init(name: nil, madeSeconds: 1, expiresSeconds: 100, uses: 1))
  }

  private var use: EnrolmentCodes.Use {
    .init(key: "00", device: DeviceID(1), seconds: 2, certificateDER: [1])
  }

  private func request() throws -> (PendingEnrolments.Request, CertificateRequest) {
    let request = PendingEnrolments.Request(
      key: key.publicKey.spkiSHA256.hex, name: "phone", address: "192.0.2.1", seconds: 1,
      device: DeviceID(1), isRenewal: false, hasCode: false)
    return (request, try CertificateRequest(der: CertificateRequest.make(for: key).span))
  }

  @Test("Codes are made, used, withdrawn and removed under the lock, and looked up without it")
  func codesUnderLock() throws {
    var made: EnrolmentCode?
    #expect(try locks { made = try code() })
    let code = try #require(made)
    #expect(try !locks { _ = try codes.standing(code, key: "00", nowSeconds: 2) })
    #expect(try locks { #expect(try codes.take(code, use: 1, use)) })
    #expect(try !locks { try codes.prune(nowSeconds: 101) })
    #expect(try locks { #expect(try codes.withdraw(hash: EnrolmentCodes.hash(code))) })
    _ = try self.code()
    #expect(
      try locks { try codes.prune(nowSeconds: 100 + Limits.enrolmentCodeKeptSeconds) })
    #expect(try codes.all().isEmpty)
  }

  @Test("A code that is withdrawn while it is used makes no device, and leaves nothing behind")
  func withdrawnMeanwhile() throws {
    let code = try code()
    _ = try codes.withdraw(hash: EnrolmentCodes.hash(code))
    #expect(try !codes.take(code, use: 1, use))
    #expect(try Files.names(in: codes.path) == [])
  }

  @Test("Requests are added and removed under the lock; one for which there is no room takes none")
  func requestsUnderLock() throws {
    let (first, certificateRequest) = try request()
    #expect(try !locks { try pending.remove(first.key) })
    #expect(try locks { #expect(try pending.add(first, certificateRequest) == .added) })
    #expect(try pending.all() == [first])
    #expect(try !locks { #expect(try pending.find(first.key) == first) })
    #expect(try locks { try pending.remove(first.key) })
    #expect(try Files.names(in: pending.path) == [])
    for number in 0..<Limits.pendingEnrolmentsPerAddress {
      var other = first
      other.key = "\(number)"
      #expect(try pending.add(other, certificateRequest) == .added)
    }
    #expect(
      try !locks { #expect(try pending.add(first, certificateRequest) == .tooManyFromAddress) })
  }

  @Test("A renewed certificate is kept, and removed later, under the lock")
  func renewalsUnderLock() throws {
    let device = try directory.device()
    let kept = data.renewals
    #expect(try locks { try kept.keep([device.certificate], of: device.id) })
    #expect(try !locks { #expect(try kept.certificates(of: device.id).count == 1) })
    let later = TestDirectory.nowSeconds + 3 * 86_400
    #expect(try locks { try kept.prune(nowSeconds: later, days: 1) })
    #expect(try kept.certificates(of: device.id).isEmpty)
  }
}

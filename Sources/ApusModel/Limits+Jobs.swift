/// Pushes to many devices.
extension Limits {
  /// Jobs that are not over at a time.
  public static let jobs = 100
  /// Jobs that are over and still shown, and for how long.
  public static let jobsKept = 100
  public static let jobKeptMilliseconds: Int64 = 7 * 86_400_000
  /// Devices of one job, and of a list of names.
  public static let jobDevices = 10_000_000
  public static let jobDeviceNames = 10_000
  /// Devices of a job that a worker is given at a time: about a millisecond of its work.
  public static let jobBatchDevices = 256
  /// Bytes of an `Idempotency-Key` field.
  public static let idempotencyKeyBytes = 255
}

extension Verb {
  static let jobDescription = CommandDescription(
    name: "job", summary: "show or cancel notifications to many devices",
    details: [
      """
      `apus send --tag`, `--all` and `--device` make a job: the service stores it, sends to one device after the \
      other, and goes on after a restart. WHAT is list, show JOB, results JOB or cancel JOB. `results` has a line for \
      each device; devices without an outcome are pending. Jobs are kept for a week after their end.
      """
    ], operands: "[WHAT] [JOB]", operandCount: 0...2,
    operandWords: ["list", "show", "results", "cancel"],
    examples: [
      ("The jobs of this service", "apus job"),
      (
        "Devices that got nothing",
        "apus job results 8C1F0A52-5E0B-4D61-9F3E-2A6B00000000 --outcome no_app"
      ),
    ])
}

/**
 * For each alert, series with which it fires, and series with which it does not, though they are near. Series are in the notation of
 * promtool, a sample a minute.
 */

/** Values by series; when it is looked, in minutes. */
export type Scene = { series: Readonly<Record<string, string>>; minute: number }

export type RuleCase = {
  fires: Scene & {
    /** Labels of the alert in addition to its severity and name. */
    labels?: Readonly<Record<string, string>>
    /** Its description, as people read it. */
    says: string
  }
  quiet: readonly Scene[]
}

export const POD = 'pod="davit-controller-0", instance="10.0.0.1:9090"'
export const POD_LABELS = { pod: 'davit-controller-0', instance: '10.0.0.1:9090' }
export const INFO = `davit_build_info{role="controller", ${POD}}`
export const OTHER_POD = 'pod="davit-controller-1", instance="10.0.0.2:9090"'
export const BUCKET = 'davit_api_call_duration_seconds_bucket'
export const DISABLED = 'davit_endpoints{state="disabled_automatically"}'

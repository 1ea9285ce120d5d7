// What others bring into clusters, and the chart makes objects of: only files of these modules are read, nothing is built.
module davit.dev/chart-kinds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.19.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.4.0
)

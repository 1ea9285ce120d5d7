#!/bin/sh
# Creates an organization: a namespace with its label, the access of Davit to its Secrets, and two API clients.
#
#   examples/organization.sh NAME
#
# Needs kubectl with the permissions of a cluster administrator, and Davit in the namespace davit-system (or DAVIT_NAMESPACE).
# It can be repeated, and changes nothing that exists already.
set -eu

name=${1-}
davit=${DAVIT_NAMESPACE-davit-system}

fail() {
  printf 'organization.sh: %s\n' "$1" >&2
  exit 2
}

[ $# -eq 1 ] || fail 'give the name of the organization, for example: examples/organization.sh acme'
printf %s "$name" | grep -Eq '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$' ||
  fail "$name is no name of a namespace: use at most 63 lowercase letters, digits and dashes"
[ "$name" != "$davit" ] || fail "$davit is Davit's own namespace"
controller=$(kubectl -n "$davit" get serviceaccount -l app.kubernetes.io/name=davit,app.kubernetes.io/component=controller -o name | head -n 1)
[ -n "$controller" ] || fail "Davit is not installed in the namespace $davit: install it first, or set DAVIT_NAMESPACE"

kubectl create namespace "$name" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
kubectl label namespace "$name" davit.dev/organization=true --overwrite >/dev/null

# NAME ROLE SUBJECT
bind() {
  kubectl -n "$name" create rolebinding "$1" --clusterrole="$2" --serviceaccount="$3" --dry-run=client -o yaml |
    kubectl apply -f - >/dev/null
}

bind davit-secrets davit-organization-secrets "$davit:${controller#serviceaccount/}"
for role in owner publisher; do
  kubectl -n "$name" create serviceaccount "$role" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
  bind "davit-$role" "davit-$role" "$name:$role"
done

cat <<END
The organization $name is ready.

API tokens (for an hour; add --duration to the command for longer ones):

  owner      $(kubectl -n "$name" create token owner --audience davit)
  publisher  $(kubectl -n "$name" create token publisher --audience davit)

To get a new one: kubectl -n $name create token publisher --audience davit
END

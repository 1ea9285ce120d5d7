#!/bin/sh
# Creates an organization: a namespace with its label, the access of Davit to its Secrets, and two API clients.
#
#   examples/organization.sh NAME
#
# Needs kubectl with the permissions of a cluster administrator, and Davit in the namespace davit-system (or DAVIT_NAMESPACE).
# You can run it again at any time: it creates the objects that are missing, and changes no others.
# docs/guides/onboard-an-organization.md explains each object.
set -eu
LC_ALL=C
export LC_ALL

name=${1-}
davit=${DAVIT_NAMESPACE-davit-system}

fail() {
  printf 'organization.sh: %s\n' "$1" >&2
  exit 2
}

[ $# -eq 1 ] && [ -n "$name" ] || fail 'give the name of the organization, for example: examples/organization.sh acme'
case $name in
  -* | *- | *[!a-z0-9-]*) valid= ;;
  *) valid=1 ;;
esac
[ -n "$valid" ] && [ ${#name} -le 63 ] ||
  fail "$name is not a valid name: use at most 63 lowercase letters, digits and dashes, with a letter or digit at both ends"
case $name in
  kube-*) fail "$name is not a valid name: names that start with kube- are reserved for Kubernetes" ;;
  "$davit") fail "$davit is Davit's own namespace" ;;
esac
controllers=$(kubectl -n "$davit" get serviceaccount -l app.kubernetes.io/name=davit,app.kubernetes.io/component=controller -o name)
controller=$(printf '%s\n' "$controllers" | head -n 1)
[ -n "$controller" ] || fail "Davit is not installed in the namespace $davit: install it first, or set DAVIT_NAMESPACE"

# KIND NAME [OPTION...]
create() {
  kind=$1 object=$2
  shift 2
  found=$(kubectl -n "$name" get "$kind" "$object" --ignore-not-found -o name)
  [ -n "$found" ] || kubectl -n "$name" create "$kind" "$object" "$@" >/dev/null
}

create namespace "$name"
kubectl label namespace "$name" davit.dev/organization=true --overwrite >/dev/null
create rolebinding davit-secrets --clusterrole=davit-organization-secrets --serviceaccount="$davit:${controller#serviceaccount/}"
for role in owner publisher; do
  create serviceaccount "$role"
  create rolebinding "davit-$role" --clusterrole="davit-$role" --serviceaccount="$name:$role"
done

owner=$(kubectl -n "$name" create token owner --audience davit)
publisher=$(kubectl -n "$name" create token publisher --audience davit)
cat <<END
The organization $name is ready.

API tokens (for an hour; add --duration to the command for longer ones):

  owner      $owner
  publisher  $publisher

To get a new one: kubectl -n $name create token publisher --audience davit
END

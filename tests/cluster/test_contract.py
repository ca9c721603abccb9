"""The contract that the sandbox's stand-in keeps, held against the real kube-apiserver."""

from tests.adapters.test_kube_api_contract import (
    TestContractAuthentication,
    TestContractAuthorization,
    TestContractErrors,
    TestContractObjects,
    TestContractPages,
    TestContractSelectors,
    operator,
)

__all__ = [
    "TestContractAuthentication",
    "TestContractAuthorization",
    "TestContractErrors",
    "TestContractObjects",
    "TestContractPages",
    "TestContractSelectors",
    "operator",
]

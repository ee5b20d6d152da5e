"""The orders of the shop. Replace the dictionary by your own system."""

ORDERS = {
    "1001": "in transit, expected on Friday",
    "1002": "delivered on Monday",
}


def get_order(order_id: str) -> str:
    """Returns the state of an order."""
    state = ORDERS.get(order_id)
    if state is None:
        return f"There is no order {order_id}."
    return f"Order {order_id} is {state}."
